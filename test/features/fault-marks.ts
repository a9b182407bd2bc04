// What the tests and the injected faults (fault-injection.ts, fault-injection-threads.ts) agree on. Apart from those, since
// they must strike in the gateway alone.

/** The environment of a gateway that has these faults. */
export const faulty = {
  NODE_OPTIONS: ['fault-injection', 'fault-injection-threads']
    .map(name => `--import ${import.meta.dirname}/${name}.ts`)
    .join(' '),
};

/** The peer whose accept throws, and the backend that cannot even be dialled. */
export const FAULTY_PEER = '127.0.0.66';
export const FAULTY_BACKEND = '127.0.0.67';

/** An HTTP answer with this status cannot be counted. */
export const FAULTY_STATUS = 418;
