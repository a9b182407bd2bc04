// Asks DNS servers, as `causeway dns check` does: over UDP, over TCP what is truncated, the next server if one does not
// answer. CNAMEs are followed here too, for servers that do not.

import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import {
  buildDnsQuery,
  type DnsMessage,
  FLAG_RESPONSE,
  FLAG_TRUNCATED,
  NOERROR,
  NXDOMAIN,
  parseDnsMessage,
  rcodeName,
  TYPE_A,
  TYPE_AAAA,
  TYPE_CNAME,
} from '../wire/dns-message.ts';
import type { Lookup, LookupAnswer } from './check-hosts.ts';
import type { RecordType } from './dns-answer.ts';

/** A resolver that has to ask others may take a while. */
const TIMEOUT_MS = 2000;
/** UDP may lose a datagram; each server gets this many. */
const TRIES = 2;
/** A longer chain is a mistake, or a circle. */
const MAX_CNAMES = 8;
const MAX_MESSAGE = 65_535;

export interface DnsServer {
  readonly address: string;
  readonly port: number;
}

const types: Readonly<Record<RecordType, number>> = { A: TYPE_A, AAAA: TYPE_AAAA };

/** Asks the first server that answers. */
export function lookupAt(servers: readonly DnsServer[], timeoutMs = TIMEOUT_MS): Lookup {
  return async (name, type) => {
    let last: LookupAnswer = failed('there is no DNS server to ask');
    for (const server of servers) {
      last = await follow(server, name, type, timeoutMs);
      if (last.status !== 'failed') return last;
    }
    return last;
  };
}

function failed(why: string, chain: readonly string[] = []): LookupAnswer {
  return { status: 'failed', addresses: [], chain, why };
}

/** Within a message and over several: an authoritative server stops where its zones end. */
async function follow(
  server: DnsServer,
  name: string,
  type: RecordType,
  timeoutMs: number,
): Promise<LookupAnswer> {
  const chain: string[] = [];
  let ttl = Number.POSITIVE_INFINITY;
  let at = name.toLowerCase();
  while (chain.length <= MAX_CNAMES) {
    const answer = await ask(server, at, type, timeoutMs);
    const place = `${server.address} port ${server.port}`;
    if (typeof answer === 'string') return failed(`${place} ${answer}`, chain);
    const { rcode, answers } = answer;
    if (rcode !== NOERROR && rcode !== NXDOMAIN)
      return failed(`${place} answers ${rcodeName(rcode)}${chain.length > 0 ? ` for ${at}` : ''}`, chain);
    const before = chain.length;
    for (let next = cnameOf(answers, at); next !== undefined; next = cnameOf(answers, at)) {
      if (chain.length > MAX_CNAMES) break;
      chain.push(next.data);
      ttl = Math.min(ttl, next.ttl);
      at = next.data;
    }
    const own = answers.filter(record => record.type === types[type] && record.name.toLowerCase() === at);
    if (own.length > 0) {
      const addresses = own.map(({ data = '' }) => data);
      return { status: 'answered', addresses, ttl: Math.min(ttl, ...own.map(each => each.ttl)), chain };
    }
    if (chain.length === before)
      return { status: rcode === NXDOMAIN ? 'no-name' : 'no-data', addresses: [], chain };
  }
  return { status: 'no-data', addresses: [], chain: chain.slice(0, MAX_CNAMES) };
}

function cnameOf(
  answers: DnsMessage['answers'],
  name: string,
): { readonly data: string; readonly ttl: number } | undefined {
  const record = answers.find(each => each.type === TYPE_CNAME && each.name.toLowerCase() === name);
  return record?.data === undefined ? undefined : { data: record.data.toLowerCase(), ttl: record.ttl };
}

/** The answer, or what is wrong with the server. */
async function ask(
  server: DnsServer,
  name: string,
  type: RecordType,
  timeoutMs: number,
): Promise<DnsMessage | string> {
  let last = '';
  for (let i = 0; i < TRIES; i++) {
    const id = randomInt(0x1_00_00);
    const query = buildDnsQuery({ id, name, type: types[type] });
    const isAnswer = (message: DnsMessage) =>
      message.id === id && (message.flags & FLAG_RESPONSE) !== 0 && isQuestion(message, name, types[type]);
    const answer = await overUdp(server, query, isAnswer, timeoutMs);
    if (typeof answer !== 'string' && (answer.flags & FLAG_TRUNCATED) !== 0)
      return overTcp(server, query, isAnswer, timeoutMs);
    if (typeof answer !== 'string') return answer;
    last = answer;
  }
  return last;
}

/** Servers that cannot read a query answer without its question. */
function isQuestion({ questions }: DnsMessage, name: string, type: number): boolean {
  if (questions.length === 0) return true;
  return questions[0].name.toLowerCase() === name && questions[0].type === type;
}

function overUdp(
  { address, port }: DnsServer,
  query: Uint8Array,
  isAnswer: (message: DnsMessage) => boolean,
  timeoutMs: number,
): Promise<DnsMessage | string> {
  return new Promise(resolve => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    const end = (result: DnsMessage | string) => {
      clearTimeout(timer);
      socket.removeAllListeners().on('error', () => {});
      socket.close();
      resolve(result);
    };
    const timer = setTimeout(end, timeoutMs, `does not answer within ${timeoutMs} ms`);
    socket.on('error', error => end(`cannot be reached (${wordOf(error)})`));
    socket.on('message', bytes => {
      const parsed = parseDnsMessage(bytes, 0, bytes.length);
      // Anything else was sent by somebody else, or is an answer to an earlier query.
      if (parsed.kind === 'found' && isAnswer(parsed.value)) end(parsed.value);
    });
    // Connected, so that a refusal by ICMP is heard and other senders are not.
    socket.connect(port, address, () => socket.send(query));
  });
}

function overTcp(
  { address, port }: DnsServer,
  query: Uint8Array,
  isAnswer: (message: DnsMessage) => boolean,
  timeoutMs: number,
): Promise<DnsMessage | string> {
  return new Promise(resolve => {
    const socket = connect(port, address);
    let received = Buffer.alloc(0);
    const end = (result: DnsMessage | string) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(result);
    };
    const timer = setTimeout(end, timeoutMs, `does not answer over TCP within ${timeoutMs} ms`);
    socket.on('error', error => end(`cannot be reached over TCP (${wordOf(error)})`));
    socket.on('close', () => end('closes the connection over TCP without an answer'));
    socket.on('connect', () =>
      socket.write(Buffer.concat([Uint8Array.of(query.length >> 8, query.length & 0xff), query])),
    );
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) {
        if (received.length > MAX_MESSAGE + 2) end('sends more than one message over TCP');
        return;
      }
      const parsed = parseDnsMessage(received, 2, 2 + received.readUInt16BE(0));
      end(parsed.kind === 'found' && isAnswer(parsed.value) ? parsed.value : 'answers what nobody can read');
    });
  });
}

function wordOf(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ECONNREFUSED' ? 'connection refused' : (code ?? error.message);
}
