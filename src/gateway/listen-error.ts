// A listener cannot be opened: somebody else listens there, or the address cannot be listened on.

import { errorWord, IN_USE } from './io/reactor.ts';

export class ListenError extends Error {
  readonly code = 'ERR_LISTEN';
  readonly on: string;

  constructor(on: string, word: number) {
    const hint = word === IN_USE ? ' by another process; stop it or choose another port' : '';
    super(`Cannot listen on '${on}': ${errorWord(word)}${hint}`);
    this.name = 'ListenError';
    this.on = on;
  }
}
