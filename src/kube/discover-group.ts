// Discovery of one API group: its versions in the server's order of preference, and the resources of each.

import { type Answer, type ApiGroup, type ApiResource, type ApiVersion, failed } from './kube-api.ts';

/** Of a group, or of the core group, which has no preferred one. */
interface GroupAnswer {
  readonly versions?: readonly (string | { readonly version: string })[];
  readonly preferredVersion?: { readonly version: string };
}

interface ResourcesAnswer {
  readonly resources?: readonly {
    readonly name: string;
    readonly kind: string;
    readonly namespaced: boolean;
    readonly verbs: readonly string[];
  }[];
}

export async function discoverGroup(
  get: <T>(path: string) => Promise<Answer<T>>,
  group: string,
): Promise<Answer<ApiGroup>> {
  const root = group === '' ? '/api' : `/apis/${encodeURIComponent(group)}`;
  const found = await get<GroupAnswer>(root);
  if (!found.ok) return found;
  const versions: ApiVersion[] = [];
  for (const version of versionsOf(found.value)) {
    const served = await get<ResourcesAnswer>(`${root}/${encodeURIComponent(version)}`);
    if (served.ok) versions.push({ version, resources: resourcesOf(served.value) });
    // It went away in between.
    else if (served.fault.status !== 404) return served;
  }
  return versions.length > 0
    ? { ok: true, value: { versions } }
    : failed(404, 'NotFound', `The API group '${group}' is not served`);
}

function versionsOf({ versions = [], preferredVersion }: GroupAnswer): ReadonlySet<string> {
  const all = versions.map(each => (typeof each === 'string' ? each : each.version));
  return new Set(preferredVersion === undefined ? all : [preferredVersion.version, ...all]);
}

function resourcesOf({ resources = [] }: ResourcesAnswer): ApiResource[] {
  return resources
    .filter(({ name }) => !name.includes('/'))
    .map(({ name, kind, namespaced, verbs }) => ({ plural: name, kind, namespaced, verbs }));
}
