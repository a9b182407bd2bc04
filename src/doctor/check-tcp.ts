// TCP: does anything accept connections where the gateway should be? Once per listener, for all clusters.

import { formatHostPort } from '../config/address.ts';
import type { Report } from './check.ts';
import type { GatewayPlaces, Place } from './gateway-places.ts';
import type { Network, NoConnection } from './network.ts';

/** The places that can be reached. */
export async function checkTcp(
  { all }: GatewayPlaces,
  network: Pick<Network, 'dial'>,
  report: Report,
): Promise<ReadonlySet<Place>> {
  const reached = new Set<Place>();
  const seen = new Set<string>();
  for (const place of all) {
    const { listener, at } = place;
    const text = formatHostPort(at.host, at.port);
    const dialled = await network.dial(at);
    if (dialled.ok) reached.add(place);
    if (seen.has(text)) continue;
    seen.add(text);
    if (dialled.ok)
      report.ok('tcp', `${text} accepts connections${text === listener.on ? '' : ` (${listener.on})`}`);
    else failed(text, dialled, report);
  }
  return reached;
}

function failed(at: string, { why, text }: NoConnection, report: Report): void {
  const other = 'if the gateway is elsewhere, give --address IP:PORT';
  if (why === 'refused' || why === 'reset') {
    const fix = `Start causeway run, and see with causeway status where it listens; ${other}`;
    report.fail('tcp', 'TcpRefused', `Nothing listens on ${at}: ${text}`, fix);
  } else if (why === 'timeout') {
    const fix = `Look for a firewall or security group that drops the packets, and for a wrong address; ${other}`;
    report.fail('tcp', 'TcpTimeout', `${at} does not answer: ${text}`, fix);
  } else {
    const fix = `Look at the address, and at the routes of this machine (ip route get); ${other}`;
    report.fail('tcp', 'TcpUnreachable', `${at} cannot be reached: ${text}`, fix);
  }
}
