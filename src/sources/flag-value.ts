// Flags of Kubernetes' programs in lists of arguments.

/** The value of `--flag=value`, or of the two items `--flag`, `value`. The last one counts, as it does there. */
export function flagValue(args: readonly string[], flag: string): string | undefined {
  const last = args.findLastIndex(arg => arg === flag || arg.startsWith(`${flag}=`));
  if (last < 0) return undefined;
  const arg = args[last];
  return arg === flag ? (args[last + 1] ?? '') : arg.slice(flag.length + 1);
}
