import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keepService } from './kept-service.ts';
import { sampleService } from './services.samples.ts';

test('keepService() keeps only the annotations that are input for us', () => {
  const { metadata, ...rest } = sampleService('x', { annotations: { hosts: 'x.example.com', status: '{}' } });
  const annotations = { ...metadata.annotations, 'kubectl.kubernetes.io/last-applied-configuration': '{}' };
  const kept = keepService({ ...rest, metadata: { ...metadata, annotations } });
  assert.deepEqual([...kept.annotations], [['hosts', 'x.example.com']]);
});
