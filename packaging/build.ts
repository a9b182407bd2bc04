// `npm run build`: the program as the npm package has it, in lib/.

import { join } from 'node:path';
import { buildProgram } from './build-program.ts';
import { ROOT } from './source-tree.ts';

await buildProgram(join(ROOT, 'lib'));
