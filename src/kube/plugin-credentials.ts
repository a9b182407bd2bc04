// Credentials that a kubeconfig leaves to an exec plugin or an auth provider. The official client knows how to ask
// them; it is imported for nothing else, since it is large.

import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import type { KubeCredentials } from './kube-access.ts';

type Given = Pick<KubeCredentials, 'cert' | 'key' | 'headers'>;

/**
 * Asks the plugin when called. The official client remembers what a plugin gave until it expires, so that it is not run
 * for each call. Rejects with what the plugin, or the official client, says.
 */
export function pluginCredentials(
  text: string,
  context: string | undefined,
  directory: string,
): () => Promise<Given> {
  const config = new KubeConfig();
  config.loadFromString(text);
  config.makePathsAbsolute(directory);
  if (context !== undefined) config.setCurrentContext(context);
  let underWay: Promise<Given> | undefined;
  return () => {
    // Calls that come together wait for one run of the plugin.
    underWay ??= given(config).finally(() => (underWay = undefined));
    return underWay;
  };
}

async function given(config: KubeConfig): Promise<Given> {
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { cert, key } = options as { cert?: Buffer; key?: Buffer };
  const { Authorization } = { ...(options.headers as Record<string, string> | undefined) };
  const headers = Authorization ? { Authorization: Authorization.trim() } : {};
  return { ...(cert && { cert }), ...(key && { key }), headers };
}
