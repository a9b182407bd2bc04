// What stands above everything else until it is over: no contact, a refused file, a restart that is needed, a drain.

import type { Status } from './api.ts';
import { formatClock } from './format.ts';

export interface Banner {
  readonly tone: 'error' | 'warning';
  readonly title: string;
  /** Lines are kept. */
  readonly text: string;
}

export interface Contact {
  /** When the last answer came, in ms since 1970. */
  readonly at: number | undefined;
  /** Why there is none now. */
  readonly lost: string | undefined;
}

export function bannersOf(
  status: Status | undefined,
  contact: Contact,
  notReady: string | undefined,
): Banner[] {
  const banners: Banner[] = [];
  if (contact.lost !== undefined) {
    banners.push({
      tone: 'error',
      title:
        contact.at === undefined
          ? 'The gateway does not answer'
          : `No contact with the gateway since ${formatClock(contact.at)}`,
      text: `${contact.lost}. ${contact.at === undefined ? 'It' : 'What is shown is from then; it'} is asked again every few seconds.`,
    });
  }
  if (notReady !== undefined) {
    banners.push(
      notReady === 'draining'
        ? {
            tone: 'warning',
            title: 'The gateway is draining',
            text: 'Open connections may finish; new ones are not accepted any more, or soon will not be. Then it exits.',
          }
        : { tone: 'warning', title: 'The gateway is not ready', text: notReady },
    );
  }
  if (status === undefined) return banners;
  const { config, sources, health } = status;
  if (!config.ok) {
    banners.push({
      tone: 'error',
      title: 'The file was refused; what was served before goes on',
      text: config.error ?? '',
    });
  }
  if (config.restartNeeded.length > 0) {
    banners.push({
      tone: 'warning',
      title: 'A restart is needed',
      text: `Changed in the file and not served yet: ${config.restartNeeded.join(', ')}`,
    });
  }
  for (const { name, up, error } of sources) {
    // The file's own mistakes are said already.
    if (up || (!config.ok && error === config.error)) continue;
    banners.push({ tone: 'warning', title: `Source '${name}' cannot be read`, text: error ?? '' });
  }
  if (health !== undefined && health.stretch > 1) {
    banners.push({
      tone: 'warning',
      title: 'Health checks are slower than asked for',
      text: `There are more than can be made: their intervals are ${health.stretch.toFixed(1)} times as long`,
    });
  }
  return banners;
}
