// Conditions shown above everything else while they last: gateway unreachable, config refused, restart needed, draining,
// objects that are not served.

import type { Status } from './api.ts';
import { formatClock } from './format.ts';

/** In one banner. */
const MAX_FINDINGS = 5;

export interface Banner {
  readonly tone: 'error' | 'warning';
  readonly title: string;
  /** Line ends are kept. */
  readonly text: string;
}

export interface Contact {
  /** When the last answer came, in ms since 1970. */
  readonly at: number | undefined;
  /** Why the gateway cannot be reached now. */
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
          ? 'The gateway cannot be reached'
          : `The gateway cannot be reached since ${formatClock(contact.at)}`,
      text: `${contact.lost}. Retrying every few seconds.${contact.at === undefined ? '' : ' The page shows the last state received.'}`,
    });
  }
  if (notReady !== undefined) {
    banners.push(
      notReady === 'draining'
        ? {
            tone: 'warning',
            title: 'The gateway is draining',
            text: 'Open connections may finish. New ones are no longer accepted, or soon will not be. Then the gateway exits.',
          }
        : { tone: 'warning', title: 'The gateway is not ready', text: notReady },
    );
  }
  if (status === undefined) return banners;
  const { config, sources, health, findings = [] } = status;
  if (!config.ok) {
    banners.push({
      tone: 'error',
      title: 'The config file was refused; the last good one is still served',
      text: config.error ?? '',
    });
  }
  if (config.restartNeeded.length > 0) {
    banners.push({
      tone: 'warning',
      title: 'A restart is needed',
      text: `Changed in the config file, but not in effect yet: ${config.restartNeeded.join(', ')}`,
    });
  }
  for (const { name, up, error } of sources) {
    // The mistakes in the config file have their own banner.
    if (up || (!config.ok && error === config.error)) continue;
    banners.push({ tone: 'warning', title: `Source '${name}' cannot be read`, text: error ?? '' });
  }
  const serious = findings.filter(({ severity }) => severity !== 'info');
  if (serious.length > 0) {
    const shown = serious
      .slice(0, MAX_FINDINGS)
      .map(({ code, text, fix, object, source }) => `${object ?? source ?? ''} ${code}: ${text}. ${fix}`);
    const rest = serious.length - shown.length;
    banners.push({
      tone: 'warning',
      title:
        serious.length === 1
          ? 'A source has something that is not served'
          : `Sources have ${serious.length} things that are not served`,
      text: [...shown, ...(rest > 0 ? [`and ${rest} more: causeway status`] : [])].join('\n'),
    });
  }
  if (health !== undefined && health.stretch > 1) {
    banners.push({
      tone: 'warning',
      title: 'Health checks run less often than configured',
      text: `There are too many of them: intervals are ${health.stretch.toFixed(1)} times as long`,
    });
  }
  return banners;
}
