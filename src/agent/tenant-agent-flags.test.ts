// The output `tenantAgent` starts agents with flags that this version's `causeway agent` accepts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type AgentAddon, uplinkKinds } from '../cluster/cluster.ts';
import { sampleAgentContext, sampleAgentOptions, sampleTenant } from '../outputs/tenant-agent.samples.ts';
import { tenantAgentObjects } from '../outputs/tenant-agent-objects.ts';
import { type AgentFlags, readAgentOptions } from './agent-options.ts';

const context = {
  ...sampleAgentContext,
  keyOf: () => 'k'.repeat(43),
  certificateOf: () => ({ cert: 'CERT', key: 'KEY' }),
  tunnelHosts: ['tunnel.example.com'],
};

function argumentsOf(uplink: (typeof uplinkKinds)[number], addon?: AgentAddon): readonly string[] {
  const options = { ...sampleAgentOptions, uplink, gatewayAddresses: ['203.0.113.10', '2001:db8::1'] };
  const { objects = [] } = tenantAgentObjects(sampleTenant(addon), options, context);
  const workload = objects.find(({ object }) => object.kind === 'Deployment');
  assert.ok(workload);
  const { spec } = workload.object as unknown as {
    readonly spec: {
      readonly template: { readonly spec: { readonly containers: readonly { readonly args: string[] }[] } };
    };
  };
  return spec.template.spec.containers[0].args;
}

/** As `causeway agent` would read them, with the address that its environment gives. */
function flagsOf([command, ...args]: readonly string[]): AgentFlags {
  assert.equal(command, 'agent');
  const flags: Record<string, string | boolean | string[]> = { advertise: ['192.0.2.1'] };
  for (const arg of args) {
    const [, name = '', value] = /^--([a-z-]+)(?:=(.*))?$/.exec(arg) ?? [];
    if (value === undefined) flags[name] = true;
    else if (name === 'gateway-address') flags[name] = [...((flags[name] as string[]) ?? []), value];
    else flags[name] = value;
  }
  return flags;
}

for (const uplink of uplinkKinds) {
  test(`causeway agent accepts and uses every flag that tenantAgent gives it for ${uplink}`, () => {
    const read = readAgentOptions(flagsOf(argumentsOf(uplink)));
    assert.ok(read.ok, JSON.stringify(read));
    assert.deepEqual(read.unused, []);
    assert.equal(read.options.gatewayAddresses.length, 2);
  });
}

test('causeway agent accepts its flags whatever a tenant writes into addons.tcpProxy', () => {
  const words = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('10.0.0.1', 'a.lab', '', '$(X)', '*', '[::1]:1', '--uplink=connect'),
  );
  const addons = fc.record(
    {
      image: words,
      internalEndpoint: words,
      resources: fc.dictionary(words, fc.jsonValue()),
      hostAliases: fc.array(fc.record({ ip: words, hostnames: fc.array(words) })),
      isRunning: fc.boolean(),
    },
    { requiredKeys: ['hostAliases'] },
  );
  fc.assert(
    fc.property(addons, addon => {
      const read = readAgentOptions(flagsOf(argumentsOf('proxy', addon)));
      assert.ok(read.ok, JSON.stringify(read));
    }),
  );
});
