// Tells maps from everything else that YAML and JSON have. Apart from fields.ts, whose schemas not everybody needs.

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
