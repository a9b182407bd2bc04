// Creates the epoll adapter for the contract suite.

import { arch } from 'node:os';
import { ThreadControl } from '../../shared/thread-control.ts';
import { EpollReactor } from '../epoll-reactor.ts';
import { loadLibc } from '../libc.ts';
import type { CreateReactor } from './messages.ts';

export const createReactor: CreateReactor = options => {
  const control = new ThreadControl(ThreadControl.memory(options.capacity));
  const reactor = new EpollReactor({ ...options, libc: loadLibc(), arch: arch(), control });
  return { reactor, waking: reactor.wakeFd };
};
