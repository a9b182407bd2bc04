// chart/values.schema.json: refuses unknown keys and wrong types in the chart's values, with their path, before anything
// is installed. `config` is causeway.yaml, so its part comes from the schema of that file. To write it:
//   node_modules/node/bin/node scripts/values-schema.ts

import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { schema as configSchema, longListener } from '../src/config/schema.ts';

type Json = Readonly<Record<string, unknown>>;

const text = { type: 'string' };
const flag = { type: 'boolean' };
const texts = { type: 'array', items: text };
const textMap = { type: 'object', additionalProperties: text };
/** Of the Kubernetes API, which checks it. */
const anyMap = { type: 'object' };
const anyMaps = { type: 'array', items: anyMap };
const port = { type: 'integer', minimum: 1, maximum: 65_535 };
const workload = { enum: ['Deployment', 'DaemonSet'] };

export function valuesSchema(): Json {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Values of the chart causeway',
    ...keys({
      // Helm adds it to the values of a subchart.
      global: anyMap,
      config: config(),
      admin: keys({ existingSecret: text }),
      secrets: { ...texts, uniqueItems: true },
      gateway: keys({ enabled: flag }),
      image: keys({
        repository: { type: 'string', minLength: 1 },
        tag: text,
        digest: { type: 'string', pattern: '^(sha256:[0-9a-f]{64})?$' },
        pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'] },
      }),
      imagePullSecrets: texts,
      nameOverride: text,
      fullnameOverride: text,
      kind: workload,
      replicas: { type: 'integer', minimum: 0 },
      hostNetwork: flag,
      service: keys({
        enabled: flag,
        type: { enum: ['LoadBalancer', 'NodePort', 'ClusterIP'] },
        externalTrafficPolicy: { enum: ['Local', 'Cluster'] },
        annotations: textMap,
        labels: textMap,
        ports: {
          type: 'array',
          items: { ...keys({ name: text, port, targetPort: port, nodePort: port }), required: ['port'] },
        },
        loadBalancerClass: text,
        loadBalancerSourceRanges: texts,
        ipFamilyPolicy: { enum: ['SingleStack', 'PreferDualStack', 'RequireDualStack'] },
      }),
      dnsService: keys({
        enabled: flag,
        type: { enum: ['LoadBalancer', 'NodePort', 'ClusterIP'] },
        annotations: textMap,
        loadBalancerClass: text,
      }),
      podDisruptionBudget: keys({ enabled: flag, maxUnavailable: { type: ['integer', 'string'] } }),
      topologySpreadConstraints: { type: ['array', 'null'], items: anyMap },
      affinity: anyMap,
      nodeSelector: textMap,
      tolerations: anyMaps,
      priorityClassName: text,
      resources: anyMap,
      preStopSeconds: { type: ['integer', 'null'], minimum: 0 },
      podAnnotations: textMap,
      podLabels: textMap,
      env: anyMaps,
      extraVolumes: anyMaps,
      extraVolumeMounts: anyMaps,
      serviceAccount: keys({ create: flag, name: text, annotations: textMap }),
      rbac: keys({ create: flag }),
      networkPolicy: keys({
        enabled: flag,
        from: anyMaps,
        adminFrom: anyMaps,
        egress: { type: ['array', 'null'], items: anyMap },
      }),
      serviceMonitor: keys({ enabled: flag, interval: text, labels: textMap }),
      prometheusRule: keys({ enabled: flag, labels: textMap }),
      grafanaDashboard: keys({ enabled: flag, labels: textMap, annotations: textMap }),
      agent: keys({
        enabled: flag,
        clusterId: text,
        gateway: text,
        gatewayAddresses: texts,
        uplink: { enum: ['proxy', 'connect', 'tunnel', 'terminate'] },
        serverName: text,
        existingSecret: text,
        caConfigMap: text,
        endpoints: flag,
        port,
        metricsPort: port,
        kind: workload,
        replicas: { type: 'integer', minimum: 0 },
        tolerations: anyMaps,
        priorityClassName: text,
        resources: anyMap,
        extraArgs: texts,
      }),
    }),
  };
}

function config(): Json {
  const options = { io: 'input', unrepresentable: 'any' } as const;
  const { properties = {}, ...rest } = z.toJSONSchema(configSchema, options);
  // Where a value may be text or a map, the schema of the file cannot be converted.
  const listener = { ...z.toJSONSchema(longListener, options), type: ['string', 'object'] };
  const listen = { type: 'array', minItems: 1, items: listener };
  return yaml11({ ...rest, properties: { ...properties, listen } });
}

function keys(properties: Json): Json {
  return { type: 'object', additionalProperties: false, properties };
}

/** Helm reads YAML 1.1, where an unquoted key `on` is `true`. The chart makes a word of it again. */
function yaml11(given: Json): Json {
  const changed = Object.entries(given).map(([key, value]) => [key, yaml11Value(value)] as const);
  const { $schema: _version, ...rest } = Object.fromEntries(changed);
  const properties = rest.properties as Json | undefined;
  if (properties === undefined || !('on' in properties)) return rest;
  const { required, ...others } = rest;
  const needed = Array.isArray(required) ? required.filter(key => key !== 'on') : [];
  return {
    ...others,
    ...(needed.length > 0 && { required: needed }),
    properties: { ...properties, true: properties.on },
  };
}

function yaml11Value(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(yaml11Value);
  return typeof value === 'object' && value !== null ? yaml11(value as Json) : value;
}

if (import.meta.main) {
  const file = new URL('../chart/values.schema.json', import.meta.url);
  writeFileSync(file, `${JSON.stringify(valuesSchema(), null, 2)}\n`);
}
