import assert from 'node:assert/strict';
import { kubeApiContract } from '../src/kube/kube-api.contract.ts';
import { memoryStore } from './memory-kube-api.ts';

kubeApiContract('memoryStore()', async () => {
  const store = memoryStore();
  return {
    api: store.client(),
    async applyAs(manager, resource, object) {
      const answer = await store.client(manager).apply(resource, object);
      assert.ok(answer.ok, JSON.stringify(answer));
    },
    forget: async () => store.forget(),
    async [Symbol.asyncDispose]() {},
  };
});
