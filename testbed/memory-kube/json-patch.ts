// JSON patch (RFC 6902) without move and copy, and JSON merge patch (RFC 7386), on documents that may be changed. As
// with API servers, and other than the RFC has it, `replace` also adds a member that is not there.

import type { PatchOperation } from '../../src/kube/kube-api.ts';
import { isContainer, isSame } from './json-value.ts';

/** Why the patch does not apply. */
export class PatchError extends Error {}

export function patchJson(document: unknown, operations: readonly PatchOperation[]): void {
  for (const operation of operations) patchOne(document, operation);
}

function patchOne(document: unknown, operation: PatchOperation): void {
  const { op, path } = operation;
  if (path !== '' && !path.startsWith('/')) throw new PatchError(`not a pointer: '${path}'`);
  const keys = path
    .split('/')
    .slice(1)
    .map(key => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = keys.pop();
  if (last === undefined) throw new PatchError('the whole document cannot be patched');
  let container = document;
  for (const key of keys) container = isContainer(container) ? container[key] : undefined;
  if (!isContainer(container)) throw new PatchError(`nothing at the parent of '${path}'`);

  if (op === 'test') {
    if (!isSame(container[last], operation.value)) throw new PatchError(`testing value '${path}' failed`);
  } else if (Array.isArray(container)) {
    const at = last === '-' ? container.length : Number(last);
    const isWithin = Number.isInteger(at) && at >= 0 && at < container.length + (op === 'add' ? 1 : 0);
    if (!isWithin) throw new PatchError(`no index '${last}' in '${path}'`);
    if (op === 'remove') container.splice(at, 1);
    else container.splice(at, op === 'add' ? 0 : 1, structuredClone(operation.value));
  } else if (op === 'remove') {
    if (!(last in container)) throw new PatchError(`nothing to remove at '${path}'`);
    delete container[last];
  } else {
    container[last] = structuredClone(operation.value);
  }
}

export function mergeJson(target: unknown, patch: unknown): unknown {
  if (!isContainer(patch) || Array.isArray(patch)) return structuredClone(patch);
  const merged: Record<string, unknown> = isContainer(target) && !Array.isArray(target) ? target : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = mergeJson(merged[key], value);
  }
  return merged;
}
