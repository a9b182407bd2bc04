// The outputs that write objects where their clusters are, by kind.

import type { OutputKind, OutputOptions, OutputSettings } from '../config/config.ts';
import { dnsEndpoints, newDnsEndpoint } from './dns-endpoint.ts';
import { ingresses, newIngress } from './ingress.ts';
import { ingressRouteTcps, newIngressRouteTcp } from './ingress-route-tcp.ts';
import type { NewOutput, Output, OutputContext, OutputResource } from './output.ts';
import { newTlsRoute, tlsRoutes } from './tls-route.ts';
import { newTransportServer, transportServers } from './transport-server.ts';

const makers: { readonly [Kind in OutputKind]?: NewOutput<OutputOptions[Kind]> } = {
  ingress: newIngress,
  ingressRouteTCP: newIngressRouteTcp,
  tlsRoute: newTlsRoute,
  transportServer: newTransportServer,
  dnsEndpoint: newDnsEndpoint,
};

/** All that these outputs may write: what an output leaves behind that is no longer in the file is found here. */
export const outputResources: readonly OutputResource[] = [
  ingresses,
  ingressRouteTcps,
  tlsRoutes,
  transportServers,
  dnsEndpoints,
];

/** Undefined for an output that is no set of objects beside its clusters. */
export function newOutput(
  { kind, name, options }: OutputSettings,
  context: OutputContext,
): Output | undefined {
  const make = makers[kind] as NewOutput<OutputSettings['options']> | undefined;
  return make?.(name, options, context);
}
