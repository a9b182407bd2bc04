// Commands to a running HAProxy over its stats socket. Every call ends: with an answer, an error or a deadline.

import { connect } from 'node:net';
import { printable } from '../text/printable.ts';

/** What a person would wait for; HAProxy answers within milliseconds, but for tens of thousands of servers. */
const ANSWER_MS = 5000;
/** A hundred thousand sessions take less. */
const ANSWER_BYTES = 128 * 1024 * 1024;
/** Commands in one connection: HAProxy reads a line of at most 16 KiB. */
const LINE_BYTES = 8000;

/** Of what HAProxy answers, in a message. */
const COMPLAINT_CHARACTERS = 200;

/** Bound to the socket of one process. */
export type RuntimeApi = (command: string) => Promise<string>;

export function runtimeApi(socketPath: string): RuntimeApi {
  return command =>
    new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      const socket = connect({ path: socketPath }, () => socket.write(`${command}\n`));
      const timer = setTimeout(
        () => socket.destroy(new Error(`HAProxy did not answer within ${ANSWER_MS / 1000} s`)),
        ANSWER_MS,
      );
      let bytes = 0;
      socket.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > ANSWER_BYTES) socket.destroy(new Error('HAProxy answered too much'));
      });
      socket.on('error', error => {
        clearTimeout(timer);
        reject(error);
      });
      socket.on('close', () => {
        clearTimeout(timer);
        resolve(Buffer.concat(chunks).toString('latin1'));
      });
    });
}

/** Runs commands that answer nothing, or only that something changed. Throws with HAProxy's own words otherwise. */
export async function runCommands(
  api: RuntimeApi,
  commands: readonly string[],
  isExpected: (answer: string) => boolean = isUsual,
): Promise<void> {
  for (const line of joined(commands)) {
    const complaint = (await api(line)).split('\n').find(answer => !isExpected(answer));
    if (complaint !== undefined)
      throw new Error(
        `HAProxy refused a command: ${printable(complaint.trim().slice(0, COMPLAINT_CHARACTERS))}`,
      );
  }
}

function isUsual(answer: string): boolean {
  const text = answer.trim();
  return text === '' || /^(IP|port) changed from|^no need to change|^nothing changed/.test(text);
}

function* joined(commands: readonly string[]): Generator<string> {
  let line = '';
  for (const command of commands) {
    if (line !== '' && line.length + command.length >= LINE_BYTES) {
      yield line;
      line = '';
    }
    line += line === '' ? command : `;${command}`;
  }
  if (line !== '') yield line;
}
