// node:http, loaded the way of CommonJS. An import reads all of its exports, and one of them is Node's WebSocket client:
// 2.5 MiB in every thread, and a tenth of a second, for something that we never use.

import type * as Http from 'node:http';
import { createRequire } from 'node:module';

export const http = createRequire(import.meta.url)('node:http') as typeof Http;
