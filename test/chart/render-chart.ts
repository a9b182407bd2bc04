// The objects that the chart makes of values, by `helm template`.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { helm } from '../../testbed/helm.ts';

export const CHART = fileURLToPath(new URL('../../chart', import.meta.url));
export const EXAMPLES = fileURLToPath(new URL('../../chart/examples', import.meta.url));
export const NAMESPACE = 'gateways';
export const RELEASE = 'causeway';

/** With any keys: a wrong one is undefined. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Rendered = KubeObject & Record<string, any>;

/** `values` as an object, or the path of a file. */
export async function renderChart(values: object | string = {}, ...args: string[]): Promise<Rendered[]> {
  const isFile = typeof values === 'string';
  const command = ['template', RELEASE, CHART, '--namespace', NAMESPACE, ...args];
  const { code, stdout, stderr } = await helm(
    isFile ? [...command, '--values', values] : command,
    isFile ? undefined : values,
  );
  assert.equal(code, 0, stderr);
  return parseAllDocuments(stdout.toString())
    .map(document => document.toJS() as Rendered | null)
    .filter(object => object !== null);
}

/** The only object of a kind, with that name if it is given. */
export function one(objects: readonly Rendered[], kind: string, name?: string): Rendered {
  const found = objects.filter(
    object => object.kind === kind && (name === undefined || object.metadata.name === name),
  );
  assert.equal(found.length, 1, `${found.length} of ${kind} ${name ?? ''}`);
  return found[0];
}

/** causeway.yaml, as the ConfigMap has it. */
export function configOf(objects: readonly Rendered[]): string {
  return one(objects, 'ConfigMap', RELEASE).data['causeway.yaml'];
}
