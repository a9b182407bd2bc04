// What the controller needs to know about the machine and the process.

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
