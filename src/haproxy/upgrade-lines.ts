// Which upgrades of HTTP connections HAProxy passes on, as our own data path does (request-server.ts). Pure.

const WISHES = '{ var(txn.upgrade) -m found }';
const IS_IGNORED = '{ var(txn.is_ignored) -m found }';
/** As `\b` of our own data path: behind another protocol, or with a version. */
const CARRIES_REQUESTS = "{ var(txn.upgrade),lower -m reg '(^|[^a-z0-9_])(h2c?|tls|http)([^a-z0-9_]|$)' }";

/**
 * For a frontend in HTTP mode. RFC 9110 7.8: not from HTTP/1.0. Not to h2c: that would carry requests past the rules. Such
 * a request is served without the upgrade. If the backend does not switch, the answer is the last: nobody knows whether
 * the bytes behind the request are HTTP. HAProxy itself ignores the upgrade of a request with a body.
 */
export function upgradeLines(): readonly string[] {
  return [
    'http-request set-var(txn.upgrade) req.fhdr(upgrade) if { req.hdr(upgrade) -m found }',
    `http-request set-var(txn.is_ignored) bool(true) if ${WISHES} HTTP_1.0`,
    `http-request set-var(txn.is_ignored) bool(true) if ${WISHES} ${CARRIES_REQUESTS}`,
    `http-request del-header Upgrade if ${IS_IGNORED}`,
    `http-request del-header HTTP2-Settings if ${IS_IGNORED}`,
    `http-request del-header Connection if ${IS_IGNORED}`,
    `http-after-response set-header Connection close if ${WISHES} !{ status 101 }`,
  ];
}
