// A listener cannot be opened: somebody else listens there, or the address cannot be listened on.

import { errorWord, IN_USE } from '../io/reactor.ts';

export class ListenError extends Error {
  readonly code = 'ERR_LISTEN';
  readonly on: string;

  /** `why` is an error word of the I/O port, or a sentence. */
  constructor(on: string, why: number | string, options?: ErrorOptions) {
    const hint = why === IN_USE ? ' by another process; stop it or choose another port' : '';
    super(`Cannot listen on '${on}': ${typeof why === 'string' ? why : errorWord(why)}${hint}`, options);
    this.name = 'ListenError';
    this.on = on;
  }
}
