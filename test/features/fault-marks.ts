// Markers shared by the tests and the injected faults (fault-injection.ts, fault-injection-threads.ts). It is separate,
// because those modules must be loaded in the gateway only.

/** The environment of a gateway with these faults. */
export const faulty = {
  NODE_OPTIONS: ['fault-injection', 'fault-injection-threads']
    .map(name => `--import ${import.meta.dirname}/${name}.ts`)
    .join(' '),
};

/** The peer whose accept throws, and the backend whose dial throws. */
export const FAULTY_PEER = '127.0.0.66';
export const FAULTY_BACKEND = '127.0.0.67';

/** Counting a response with this status throws. */
export const FAULTY_STATUS = 418;

/** What a thread dies of as it takes a connection: the data of a PING. */
export const DEADLY_PING = '@@exit@@';
