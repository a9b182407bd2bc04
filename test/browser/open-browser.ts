// The machine's Chromium, without a window: `await using browser = await openBrowser()`.

import { type Browser, chromium } from 'playwright-core';
import { findProgram } from '../../testbed/packages.ts';

/** Chromium starts within a second; on a busy machine it takes many. */
const START_MS = 60_000;

export async function openBrowser(): Promise<Browser> {
  const executablePath = findProgram('chromium');
  if (executablePath === undefined) throw new Error('Cannot find the program: chromium');
  return chromium.launch({
    executablePath,
    timeout: START_MS,
    // Its sandbox does not start as root.
    chromiumSandbox: process.getuid?.() !== 0,
    // In a container /dev/shm is small.
    args: ['--disable-dev-shm-usage'],
  });
}
