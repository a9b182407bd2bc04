import { reactorContract } from './reactor.contract.ts';

reactorContract({ name: 'net', module: new URL('./contract/net-adapter.ts', import.meta.url) });
