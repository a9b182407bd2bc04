// The machine that the process runs on, as the controller wants to know it.

import { availableParallelism } from 'node:os';
import type { ControllerOptions } from '../controller/controller.ts';
import { openFileLimit } from './open-file-limit.ts';

export function machine(): ControllerOptions['host'] {
  return {
    cores: availableParallelism(),
    openFiles: openFileLimit(),
    uid: process.getuid?.(),
    platform: process.platform,
    arch: process.arch,
    node: process.version,
  };
}
