// The engine that a feature test runs on, and what that engine cannot do. A test of something else than the common
// behaviour asks here, so that the reason stands in one place; the same list is in docs/haproxy.md.

const engine = process.env.CAUSEWAY_TEST_ENGINE ?? 'auto';

/** The first thread that serves HTTP/2 and TLS. */
export const streamThread = engine === 'net' ? 'worker-0' : 'stream-0';

/** What the HAProxy engine lacks, with the reason. */
const missingOnHaproxy = {
  dialAlerts:
    'HAProxy closes the connection of a client whose backend cannot be reached, without a TLS alert',
  alpnOfId: 'on HAProxy, alpn does not choose among the routes of a cluster that an id names',
  connect: 'HAProxy has no CONNECT of its own',
  halfClosedReason: 'HAProxy does not tell timeouts.halfClosed from timeouts.idle when both are set',
  manyRecordHello: 'HAProxy reads a ClientHello from one TLS record',
  pendingLimits: 'HAProxy does not count connections that are not routed yet',
  resets:
    'HAProxy passes on a reset of a backend, or one that it reads together with bytes, as FIN and may log it as done, and after a time-out resets the backend',
  endsAtOnce:
    'HAProxy 2.6 can cut off the last bytes of both sides if both send FIN while bytes are on their way in both directions',
  brokenHello: 'HAProxy reads of a ClientHello only what it routes by',
  timeoutSentence: 'HAProxy answers an incomplete HTTP request with its own page',
  resetOfEnded: 'HAProxy sends FIN to both sides of a connection that we end',
  endOfSilent: 'HAProxy ends a connection that waits for its first bytes only at timeouts.hello',
  openDetails: 'HAProxy tells host, id and origin of a connection when it has ended',
  helloTimes: 'HAProxy does not log when the first bytes were complete',
  dialMicroseconds: 'HAProxy logs whole milliseconds',
  endsFirst: 'after a refusal over HTTP, HAProxy logs the connection when the client has closed its side too',
  strictHttp:
    'HAProxy reads what RFC 9112 lets a recipient mend (bare LF, more spaces, a Host that is repeated, both lengths), and sends it on mended, in requests and answers; it passes on methods and status codes that nobody knows; what it refuses it refuses in words of its own',
  laterDialAnswers:
    'HAProxy closes without an answer if the backend of a second request cannot be dialled in time or closes before it answers, so that the client repeats it',
  httpBytes: 'HAProxy counts the bytes of a request as it sends it on, with the headers that it adds',
  keepsHttp10: 'HAProxy closes after an answer to HTTP/1.0 whose length is not known',
  keepsRedirected: 'HAProxy closes after it has redirected a request with a body',
  judgesTrailers: 'HAProxy passes trailers on as they are',
  http11Upstream:
    'HAProxy asks the backend in HTTP/1.0 if the client does, and leaves it to the backend to answer accordingly',
  earlyAnswerIsLast:
    'after an answer that comes before the request is complete, HAProxy waits for the rest of the request',
  answersAfterFin:
    'HAProxy takes FIN behind an HTTP request for a client that has left, and ends the request',
  halfClosedUpgrades: 'HAProxy ends an upgraded connection when the backend has finished its side',
  lateUpgradesIgnored: 'HAProxy grants an upgrade behind an unanswered request when its turn comes',
  upgradeWithBodyIsLast: 'HAProxy reads further requests after an upgrade request with a body',
  pooledConnections: 'on HAProxy, each request has a connection of its own to the backend',
  signatures: 'HAProxy verifies no signatures',
  revoke: 'HAProxy keeps open connections when their route is gone or their client is no longer allowed',
  hashOfExplain: 'HAProxy balances by its own hash, which explain does not know',
  dialTimeOfRetries: 'HAProxy logs the time of the last attempt',
  stalledReason: 'HAProxy does not tell a side that reads nothing from one that resets',
  stalledBody:
    'HAProxy 2.6 waits for the rest of a request for as long as timeouts.idle, and newer ones answer 400',
  keptBytes: 'HAProxy does not tell how many bytes it keeps',
  threads: 'HAProxy has no threads of ours to end or to inject faults into',
} as const;

/** Whether the engine of this run can do that. */
export function supports(feature: keyof typeof missingOnHaproxy): boolean {
  return engine !== 'haproxy' || !(feature in missingOnHaproxy);
}
