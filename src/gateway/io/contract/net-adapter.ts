// Creates the `net` adapter for the contract suite.

import { NetReactor } from '../net-reactor.ts';
import type { CreateReactor } from './messages.ts';

export const createReactor: CreateReactor = options => ({ reactor: new NetReactor(options) });
