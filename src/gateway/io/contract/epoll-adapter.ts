// The epoll adapter for the contract suite.

import { arch } from 'node:os';
import { EpollReactor } from '../epoll-reactor.ts';
import { loadLibc } from '../libc.ts';
import type { CreateReactor } from './messages.ts';

export const createReactor: CreateReactor = options => {
  const reactor = new EpollReactor({ ...options, libc: loadLibc(), arch: arch() });
  return { reactor, waking: reactor.wakeFd };
};
