// The discovery API: versions, groups and resources, in the format that every kubectl understands.

import { groupVersion, type Resource, resources } from './resources.ts';

/** The version we pretend to be. kubectl warns if its own version differs by more than one minor version. */
export const KUBERNETES_VERSION = 'v1.33.1';

/** Read-only: these are stand-ins. */
const VERBS = ['get', 'list', 'watch'];

/** Only POST, and not stored: used by `kubectl auth whoami`. */
export const SELF_SUBJECT_REVIEW = {
  group: 'authentication.k8s.io',
  version: 'v1',
  name: 'selfsubjectreviews',
} as const;

/** The answer to a discovery path; undefined for any other path. */
export function discover(path: string, cluster: string): object | undefined {
  const groups = [...new Set([...resources.map(({ group }) => group), SELF_SUBJECT_REVIEW.group])];
  switch (path) {
    case '/version':
      return versionInfo(cluster);
    case '/api':
      return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] };
    case '/apis':
      return {
        kind: 'APIGroupList',
        apiVersion: 'v1',
        groups: groups.filter(group => group !== '').map(groupInfo),
      };
  }
  for (const group of groups) {
    const prefix = group === '' ? '/api' : `/apis/${group}`;
    if (path === `${prefix}/v1`) return resourceList(group);
    if (group !== '' && path === prefix) return { kind: 'APIGroup', apiVersion: 'v1', ...groupInfo(group) };
  }
  return undefined;
}

/** Has the cluster's name as build metadata, so that `kubectl version` shows which cluster answered. */
function versionInfo(cluster: string): object {
  const [major, minor] = KUBERNETES_VERSION.slice(1).split('.');
  return {
    major,
    minor,
    gitVersion: `${KUBERNETES_VERSION}+${cluster}`,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: '',
    compiler: '',
    platform: 'demo',
  };
}

function groupInfo(name: string): object {
  const version = { groupVersion: `${name}/v1`, version: 'v1' };
  return { name, versions: [version], preferredVersion: version };
}

function resourceList(group: string): object {
  const own = resources.filter(resource => resource.group === group).map(resourceInfo);
  const review = {
    name: SELF_SUBJECT_REVIEW.name,
    singularName: 'selfsubjectreview',
    namespaced: false,
    kind: 'SelfSubjectReview',
    verbs: ['create'],
  };
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: groupVersion({ group, version: 'v1' }),
    resources: group === SELF_SUBJECT_REVIEW.group ? [...own, review] : own,
  };
}

function resourceInfo({ name, singularName, namespaced, kind, shortNames, categories }: Resource): object {
  return {
    name,
    singularName,
    namespaced,
    kind,
    verbs: VERBS,
    ...(shortNames !== undefined && { shortNames }),
    ...(categories !== undefined && { categories }),
  };
}
