// The process that this one replaces: found by its socket in runDir, asked for its listening sockets, and told when this
// process serves.

import { readdir, rm } from 'node:fs/promises';
import * as net from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { closeSocket } from '../gateway/control/inherited-sockets.ts';
import {
  descriptorCount,
  messageText,
  type Phase,
  parseMessage,
  type Reply,
  type Request,
  type Sockets,
  sendMessage,
  socketsOf,
  takeMessages,
} from './messages.ts';
import { DescriptorReceiver } from './pass-descriptors.ts';
import { ReplaceError } from './replace-error.ts';

/** A process that is alive answers by then, even if it reads a large file at that moment. */
const ANSWER_MS = 10_000;
/** How long a process waits while another one replaces the same gateway. */
const BUSY_MS = 120_000;
const LOOK_MS = 20;
const BUSY_LOOK_MS = 200;

/** Another process with a socket in the same folder. */
export interface Peer {
  readonly pid: number;
  readonly path: string;
}

/** Processes with a socket in the folder, except this one. Some may be gone. */
export async function peersIn(folder: string, ownPid: number): Promise<readonly Peer[]> {
  return (await readdir(folder)).flatMap(name => {
    const pid = Number(/^(\d+)\.sock$/.exec(name)?.[1] ?? ownPid);
    return pid === ownPid ? [] : [{ pid, path: join(folder, name) }];
  });
}

/**
 * The peer that serves, or else one that is about to. One that does not answer counts as serving. Removes the sockets of
 * processes that are gone: nobody listens there. (/proc may not show a process that lives, as under ProtectProc=.)
 */
export async function servingPeer(
  folder: string,
  ownPid: number,
  answerMs: number,
): Promise<(Peer & { readonly phase: Phase }) | undefined> {
  let starting: (Peer & { readonly phase: Phase }) | undefined;
  for (const peer of await peersIn(folder, ownPid)) {
    const reply = await ask(peer, { kind: 'who' }, answerMs);
    if (reply === 'gone') await rm(peer.path, { force: true });
    if (typeof reply === 'object' && reply.kind !== 'gateway') continue;
    const phase = reply === 'silent' ? 'serving' : typeof reply === 'object' ? reply.phase : undefined;
    if (phase === 'serving') return { ...peer, phase };
    if (phase === 'starting') starting = { ...peer, phase };
  }
  return starting;
}

/** Undefined if there is nobody to replace. Throws a ReplaceError. */
export async function beginReplacement(
  folder: string,
  ownPid: number,
  answerMs = ANSWER_MS,
): Promise<Predecessor | undefined> {
  const started = performance.now();
  for (;;) {
    const peer = await servingPeer(folder, ownPid, answerMs);
    if (peer === undefined) return undefined;
    const begun = peer.phase === 'serving' ? await Predecessor.begin(peer, ownPid) : peer.pid;
    if (begun instanceof Predecessor) return begun;
    const waited = performance.now() - started;
    if (begun === undefined && waited > answerMs) throw new ReplaceError(keeps(peer.pid));
    if (begun !== undefined && waited > BUSY_MS) throw new ReplaceError(busy(peer.pid, begun));
    await sleep(BUSY_LOOK_MS);
  }
}

export class Predecessor implements Disposable {
  readonly pid: number;
  readonly sockets: Sockets;
  readonly #receiver: DescriptorReceiver;

  private constructor(pid: number, sockets: Sockets, receiver: DescriptorReceiver) {
    this.pid = pid;
    this.sockets = sockets;
    this.#receiver = receiver;
  }

  /**
   * The number of the process that is replacing it already, if one is; undefined if it has ended, or hands nothing over.
   * Throws a ReplaceError.
   */
  static async begin(peer: Peer, ownPid: number): Promise<Predecessor | number | undefined> {
    const descriptors: number[] = [];
    let receiver: DescriptorReceiver | undefined;
    try {
      receiver = DescriptorReceiver.connect(peer.path);
      if (receiver === undefined) return undefined;
      receiver.send(messageText({ kind: 'take-over', pid: ownPid }));
      const reply = await receiveReply(receiver, descriptors);
      if (reply === 'silent') throw new ReplaceError(silent(peer.pid));
      if (reply?.kind === 'sockets')
        return new Predecessor(peer.pid, socketsOf(reply, descriptors), receiver);
      receiver.close();
      return reply?.kind === 'busy' ? reply.by : undefined;
    } catch (error) {
      receiver?.close();
      closeSocket({ descriptors });
      if (error instanceof ReplaceError) throw error;
      throw new ReplaceError(`Cannot get the listeners of process ${peer.pid}: ${(error as Error).message}`);
    }
  }

  /** This process accepts. Resolves when the old one has stopped accepting, or is gone; false if it does not answer. */
  async stop(): Promise<boolean> {
    try {
      this.#receiver.send(messageText({ kind: 'serving' }));
    } catch {
      // It has ended meanwhile.
      return true;
    }
    return (await receiveReply(this.#receiver, [])) !== 'silent';
  }

  /** Before stop(): the old one goes on as if nothing had happened. */
  [Symbol.dispose](): void {
    this.#receiver.close();
  }
}

/** Undefined at the end of the connection. */
async function receiveReply(
  receiver: DescriptorReceiver,
  descriptors: number[],
): Promise<Reply | 'silent' | undefined> {
  const deadline = performance.now() + ANSWER_MS;
  for (let text = ''; performance.now() < deadline; ) {
    const received = receiver.receive();
    if (received === undefined) {
      await sleep(LOOK_MS);
      continue;
    }
    descriptors.push(...received.descriptors);
    if (received.text === '') return undefined;
    text += received.text;
    const end = text.indexOf('\n');
    if (end < 0) continue;
    const reply = parseMessage<Reply>(text.slice(0, end));
    if (reply?.kind !== 'sockets' || descriptors.length >= descriptorCount(reply)) return reply;
  }
  return 'silent';
}

/** `gone`: nobody listens there. Undefined at the end of the connection. */
function ask(peer: Peer, request: Request, answerMs: number): Promise<Reply | 'silent' | 'gone' | undefined> {
  return new Promise(resolve => {
    const socket = net.connect(peer.path);
    const timer = setTimeout(() => done('silent'), answerMs);
    const done = (reply: Reply | 'silent' | 'gone' | undefined) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reply);
    };
    socket.on('error', ({ code }: NodeJS.ErrnoException) =>
      done(code === 'ECONNREFUSED' ? 'gone' : undefined),
    );
    socket.on('close', () => done(undefined));
    takeMessages<Reply>(socket, done);
    sendMessage(socket, request);
  });
}

function keeps(pid: number): string {
  return `The gateway (process ${pid}) does not hand its listeners over; its log says why`;
}

function busy(pid: number, by: number): string {
  return `Process ${by} has been replacing the gateway (process ${pid}) for ${BUSY_MS / 60_000} minutes; end it and try again`;
}

function silent(pid: number): string {
  return `The gateway (process ${pid}) does not answer: it is stopped or stuck. Look at its log, or end it and start without --replace`;
}
