// Requests that two programs in a chain might parse differently. `$T` stands for the request's own path, `$H` for the
// host, `$X` for the path of a hidden request, which nobody may ever parse as a request, `$N` and `$16N` for
// its length.

/** The expected outcome of a sample, sent in one piece or byte by byte. */
export type Fate =
  /** Refused: no byte of it reaches a backend. */
  | 'refused'
  /** The error is in the body, after the head was forwarded: no backend ever gets a complete request. */
  | 'cut'
  /** Everyone parses it as one request. */
  | 'passed'
  /** RFC 9112 allows several: refused, cut or forwarded, and nothing else. */
  | 'either';

export interface Sample {
  readonly name: string;
  readonly bytes: string;
  readonly fate: Fate;
}

const HIDDEN = 'GET $X HTTP/1.1\r\nHost: $H\r\n\r\n';

const head = (...lines: readonly string[]) => `${lines.join('\r\n')}\r\n\r\n`;
const get = (...lines: readonly string[]) => head('GET $T HTTP/1.1', 'Host: $H', ...lines);
const post = (body: string, ...lines: readonly string[]) =>
  head('POST $T HTTP/1.1', 'Host: $H', ...lines) + body;
const chunked = (body: string, ...lines: readonly string[]) =>
  post(body, 'Transfer-Encoding: chunked', ...lines);
/** A request line of its own. */
const line = (text: string) => head(text, 'Host: $H');

const refused: Record<string, string> = {
  'CL.TE': post(`0\r\n\r\n${HIDDEN}`, 'Content-Length: 50', 'Transfer-Encoding: chunked'),
  'TE.CL': post(`5\r\nhello\r\n0\r\n\r\n${HIDDEN}`, 'Transfer-Encoding: chunked', 'Content-Length: 4'),
  'CL 0 with TE': post(`0\r\n\r\n${HIDDEN}`, 'Content-Length: 0', 'Transfer-Encoding: chunked'),
  'TE unknown coding': post('0\r\n\r\n', 'Transfer-Encoding: xchunked'),
  'TE space before the colon': post('0\r\n\r\n', 'Transfer-Encoding : chunked'),
  'TE tab before the colon': post('0\r\n\r\n', 'Transfer-Encoding\t: chunked'),
  'TE chunked, identity': post('0\r\n\r\n', 'Transfer-Encoding: chunked, identity'),
  'TE identity, chunked': post('0\r\n\r\n', 'Transfer-Encoding: identity, chunked'),
  'TE gzip, chunked': post('0\r\n\r\n', 'Transfer-Encoding: gzip, chunked'),
  'TE identity': post('', 'Transfer-Encoding: identity'),
  'TE twice': post('0\r\n\r\n', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
  'TE twice, the second unknown': post('0\r\n\r\n', 'Transfer-Encoding: chunked', 'Transfer-Encoding: cow'),
  'TE vertical tab': post('0\r\n\r\n', 'Transfer-Encoding: \x0bchunked'),
  'TE NUL': post('0\r\n\r\n', 'Transfer-Encoding: chunked\0'),
  'TE quoted': post('0\r\n\r\n', 'Transfer-Encoding: "chunked"'),
  'TE empty': post('', 'Transfer-Encoding:'),
  'TE folded': post('0\r\n\r\n', 'Transfer-Encoding:\r\n chunked'),
  'TE behind a bare LF': post('0\r\n\r\n', 'X: y\nTransfer-Encoding: chunked'),
  'TE behind a bare CR': post('0\r\n\r\n', 'X: y\rTransfer-Encoding: chunked'),
  'TE form feed': post('0\r\n\r\n', 'Transfer-Encoding: \x0cchunked'),
  'TE no-break space': post('0\r\n\r\n', 'Transfer-Encoding:\xa0chunked'),
  'TE twice in one': post('0\r\n\r\n', 'Transfer-Encoding: chunked, chunked'),
  'TE comma in front': post('0\r\n\r\n', 'Transfer-Encoding: , chunked'),
  'TE comma behind': post('0\r\n\r\n', 'Transfer-Encoding: chunked,'),
  'TE with a parameter': post('0\r\n\r\n', 'Transfer-Encoding: chunked;q=1'),
  'TE in two words': post('0\r\n\r\n', 'Transfer-Encoding: chunked chunked'),
  'TE space in front of the name': post('0\r\n\r\n', ' Transfer-Encoding: chunked'),
  'TE line break in front of the colon': post('0\r\n\r\n', 'Transfer-Encoding', ' : chunked'),
  'TE unknown, CL beside it': post(`0\r\n\r\n${HIDDEN}`, 'Content-Length: 5', 'Transfer-Encoding: cow'),
  'TE twice, the first unknown': post('0\r\n\r\n', 'Transfer-Encoding: cow', 'Transfer-Encoding: chunked'),
  'TE beside CL that Connection names': post(
    `0\r\n\r\n${HIDDEN}`,
    'Content-Length: 5',
    'Transfer-Encoding: chunked',
    'Connection: Content-Length',
  ),
  'CL beside TE that Connection names': post(
    `0\r\n\r\n${HIDDEN}`,
    'Transfer-Encoding: chunked',
    'Content-Length: 5',
    'Connection: Transfer-Encoding',
  ),
  'TE in HTTP/1.0': `${head('POST $T HTTP/1.0', 'Host: $H', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
  'CL twice, different': post(`hello${HIDDEN}`, 'Content-Length: 5', 'Content-Length: 50'),
  'CL twice, alike': post('hello', 'Content-Length: 5', 'Content-Length: 5'),
  'CL twice, one empty': post('hello', 'Content-Length: 5', 'Content-Length:'),
  'CL list': post('hello', 'Content-Length: 5, 5'),
  'CL list, different': post(`hello${HIDDEN}`, 'Content-Length: 5, 50'),
  'CL 1e1': post('hello', 'Content-Length: 1e1'),
  'CL in quotes': post('hello', 'Content-Length: "5"'),
  'CL vertical tab': post('hello', 'Content-Length: \x0b5'),
  'CL no-break space': post('hello', 'Content-Length: 5\xa0'),
  'CL with zeros in front': post('hello', 'Content-Length: 00000000000000000005'),
  'CL +5': post('hello', 'Content-Length: +5'),
  'CL -1': post('', 'Content-Length: -1'),
  'CL 0x5': post('hello', 'Content-Length: 0x5'),
  'CL 5 5': post('hello', 'Content-Length: 5 5'),
  'CL 5;': post('hello', 'Content-Length: 5;'),
  'CL 5.0': post('hello', 'Content-Length: 5.0'),
  'CL overflow': post('hello', 'Content-Length: 99999999999999999999'),
  'CL overflow to 5': post('hello', 'Content-Length: 18446744073709551621'),
  'CL empty': post('', 'Content-Length:'),
  'CL space before the colon': post('hello', 'Content-Length : 5'),
  'CL as a folded line': head('POST $T HTTP/1.1', ' Content-Length: 5', 'Host: $H'),
  'Host twice': head('GET $T HTTP/1.1', 'Host: $H', 'Host: other.test'),
  'Host twice, alike': head('GET $T HTTP/1.1', 'Host: $H', 'Host: $H'),
  'Host twice, far apart': head('GET $T HTTP/1.1', 'Host: $H', ...Array(2100).fill('a:'), 'Host: other.test'),
  'Host list': head('GET $T HTTP/1.1', 'Host: $H, other.test'),
  'Host with a space': head('GET $T HTTP/1.1', 'Host: $H other.test'),
  'Host with userinfo': head('GET $T HTTP/1.1', 'Host: user@$H'),
  'Host with a path': head('GET $T HTTP/1.1', 'Host: $H/x'),
  'Host with NUL': head('GET $T HTTP/1.1', 'Host: $H\0.other.test'),
  'Host with a bad port': head('GET $T HTTP/1.1', 'Host: $H:x'),
  'Host with port 0': head('GET $T HTTP/1.1', 'Host: $H:0'),
  'Host with port 65536': head('GET $T HTTP/1.1', 'Host: $H:65536'),
  'Host with two ports': head('GET $T HTTP/1.1', 'Host: $H:80:80'),
  'Host with a query': head('GET $T HTTP/1.1', 'Host: $H?x'),
  'Host with a fragment': head('GET $T HTTP/1.1', 'Host: $H#x'),
  'Host with a backslash': head('GET $T HTTP/1.1', 'Host: $H\\x'),
  'Host with an escape': head('GET $T HTTP/1.1', 'Host: %72$H'),
  'Host with a no-break space': head('GET $T HTTP/1.1', 'Host: $H\xa0'),
  'Host with two dots behind': head('GET $T HTTP/1.1', 'Host: $H..'),
  'Host is half an IPv6 address': head('GET $T HTTP/1.1', 'Host: [::1'),
  'Host missing': head('GET $T HTTP/1.1', 'X: y'),
  'Host missing in HTTP/1.0': head('GET $T HTTP/1.0', 'X: y'),
  'Host empty': head('GET $T HTTP/1.1', 'Host:'),
  'Host space before the colon': head('GET $T HTTP/1.1', 'Host : $H'),
  'Host folded': head('GET $T HTTP/1.1', 'Host:', ' $H'),
  'Host continued': head('GET $T HTTP/1.1', 'Host: $H', ' .other.test'),
  'absolute target of another host': head('GET http://other.test$T HTTP/1.1', 'Host: $H'),
  'absolute target of another port': head('GET http://$H:81$T HTTP/1.1', 'Host: $H'),
  'absolute target with userinfo': head('GET http://user@$H$T HTTP/1.1', 'Host: $H'),
  'absolute target with a backslash': head('GET http://other.test\\@$H$T HTTP/1.1', 'Host: $H'),
  'absolute target without a host': head('GET http://$T HTTP/1.1', 'Host: $H'),
  'absolute target with a fragment': head('GET http://$H$T#x HTTP/1.1', 'Host: $H'),
  'absolute target with https': head('GET https://$H$T HTTP/1.1', 'Host: $H'),
  'absolute target with ftp': head('GET ftp://$H$T HTTP/1.1', 'Host: $H'),
  'absolute target without Host': head('GET http://$H$T HTTP/1.1', 'X: y'),
  'target is an authority': head('GET $H:80 HTTP/1.1', 'Host: $H'),
  'target without a slash': head('GET x$T HTTP/1.1', 'Host: $H'),
  'target * of GET': head('GET * HTTP/1.1', 'Host: $H', 'X: $T'),
  'target with a space': line('GET $T x HTTP/1.1'),
  'target with a high byte': line('GET $T\x80 HTTP/1.1'),
  'target with a fragment': line('GET $T#x HTTP/1.1'),
  'target with a NUL': line('GET $T\0 HTTP/1.1'),
  'line with a space in front': line(' GET $T HTTP/1.1'),
  'line with tabs': line('GET\t$T\tHTTP/1.1'),
  'line with a tab before the version': line('GET $T\tHTTP/1.1'),
  'line with a tab besides the space': line('GET \t$T HTTP/1.1'),
  'line with a vertical tab': line('GET\x0b$T HTTP/1.1'),
  'line with a form feed': line('GET\x0c$T HTTP/1.1'),
  'line with a no-break space': line('GET\xa0$T HTTP/1.1'),
  'line with a bare CR': line('GET $T\rHTTP/1.1'),
  'line twice': `GET $T HTTP/1.1\r\nGET $X HTTP/1.1\r\nHost: $H\r\n\r\n`,
  'line with a space behind': line('GET $T HTTP/1.1 '),
  'line with two spaces': line('GET  $T HTTP/1.1'),
  'line with two spaces before the version': line('GET $T  HTTP/1.1'),
  'LF in front': `\n${line('GET $T HTTP/1.1')}`,
  'line ends with a bare LF': 'GET $T HTTP/1.1\nHost: $H\r\n\r\n',
  'line ends with a bare CR': 'GET $T HTTP/1.1\rHost: $H\r\n\r\n',
  'HTTP/0.9': 'GET $T\r\n\r\n',
  'HTTP/0.9 as written': line('GET $T HTTP/0.9'),
  'HTTP/1.2': line('GET $T HTTP/1.2'),
  'HTTP/1.10': line('GET $T HTTP/1.10'),
  'HTTP/2.0': line('GET $T HTTP/2.0'),
  'HTTP/ 1.1': line('GET $T HTTP/ 1.1'),
  'http/1.1': line('GET $T http/1.1'),
  'HTTPS/1.1': line('GET $T HTTPS/1.1'),
  'method in lower case': line('get $T HTTP/1.1'),
  'method with a stray byte': line('G@T $T HTTP/1.1'),
  'h2 preface': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0',
  CONNECT: head('CONNECT $H:80 HTTP/1.1', 'Host: $H', 'X: $T'),
  'header name with a space': get('X Y: z'),
  'header name with a bracket': get('X(: z'),
  'header name with a tab': get('X\t: z'),
  'header name with NUL': get('X\0: z'),
  'header name in quotes': get('"X": z'),
  'header name empty': get(': z'),
  'header name with a high byte': get('X\x80: z'),
  'header without a colon': get('nocolon'),
  'header folded': get('X: y', ' z'),
  'header folded by a tab': get('X: y', '\tz'),
  'header with NUL': get('X: a\0b'),
  'header ends with CR CR LF': get('X: y\r'),
  'header with CR and a request': get(`X: y\r\rGET $X HTTP/1.1\rHost: $H`),
  'header with DEL': get('X: a\x7fb'),
  'header with a control byte': get('X: \x01'),
  'header ends with a bare LF': `GET $T HTTP/1.1\r\nHost: $H\r\nX: y\n\r\n`,
  'head ends with a bare LF': `GET $T HTTP/1.1\r\nHost: $H\r\n\n`,
  'head ends with CR CR LF': `GET $T HTTP/1.1\r\nHost: $H\r\n\r\r\n`,
  'head too long, one line': get(`X: ${'x'.repeat(17_000)}`),
  'head too long, many lines': get(...Array.from({ length: 700 }, (_, i) => `X-Header-${i}: ${i} and so on`)),
  'target too long': line(`GET $T${'x'.repeat(17_000)} HTTP/1.1`),
};

const cut: Record<string, string> = {
  'chunk 0x5': chunked('0x5\r\nhello\r\n0\r\n\r\n'),
  'chunk +5': chunked('+5\r\nhello\r\n0\r\n\r\n'),
  'chunk -5': chunked('-5\r\nhello\r\n0\r\n\r\n'),
  'chunk -0': chunked(`-0\r\n\r\n${HIDDEN}`),
  'chunk 5_': chunked('5_\r\nhello\r\n0\r\n\r\n'),
  'chunk with a vertical tab behind': chunked('5\x0b\r\nhello\r\n0\r\n\r\n'),
  'chunk with a high byte behind': chunked('5\x80\r\nhello\r\n0\r\n\r\n'),
  'chunk ends with a bare CR': chunked('5\r\nhello\r0\r\n\r\n'),
  'chunk ends with LF CR': chunked('5\r\nhello\n\r0\r\n\r\n'),
  'chunk extension with a line break in quotes': chunked(`5;a="\r\nhello"\r\n0\r\n\r\n${HIDDEN}`),
  'last chunk before a hidden request': chunked(`5\r\nhello\r\n0\r\n${HIDDEN}`),
  'chunk with a space in front': chunked(' 5\r\nhello\r\n0\r\n\r\n'),
  'chunk without a size': chunked('\r\nhello\r\n0\r\n\r\n'),
  'chunk not hexadecimal': chunked('g\r\nhello\r\n0\r\n\r\n'),
  'chunk overflow': chunked('ffffffffffffffffff\r\nhello\r\n0\r\n\r\n'),
  'chunk overflow to 5': chunked('10000000000000005\r\nhello\r\n0\r\n\r\n'),
  'chunk size ends with a bare LF': chunked('5\nhello\r\n0\r\n\r\n'),
  'chunk size ends with a bare CR': chunked('5\rhello\r\n0\r\n\r\n'),
  'chunk ends with a bare LF': chunked('5\r\nhello\n0\r\n\r\n'),
  'chunk without an end': chunked(`5\r\nhello0\r\n\r\n${HIDDEN}`),
  'chunk longer than its size': chunked(`5\r\nhello, you\r\n0\r\n\r\n`),
  'chunk extension with a bare LF': chunked(`5;a\nb\r\nhello\r\n0\r\n\r\n`),
  'chunk extension with a bare CR': chunked(`5;a\rb\r\nhello\r\n0\r\n\r\n`),
  'chunk extension with NUL': chunked(`5;a\0\r\nhello\r\n0\r\n\r\n`),
  'chunk extension without an end': chunked(`5;${'a'.repeat(40_000)}`),
  'last chunk ends with bare LFs': chunked(`5\r\nhello\r\n0\n\n${HIDDEN}`),
  'trailer folded': chunked('5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n'),
  'trailer with a bare LF': chunked(`5\r\nhello\r\n0\r\nX: y\n\r\n`),
  'trailer with NUL': chunked('5\r\nhello\r\n0\r\nX: \0\r\n\r\n'),
  'trailer name with a space': chunked('5\r\nhello\r\n0\r\nX : y\r\n\r\n'),
  'trailers too long': chunked(`5\r\nhello\r\n0\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`),
};

const passed: Record<string, string> = {
  plain: get(),
  'TE in capitals': chunked('5\r\nhello\r\n0\r\n\r\n').replace('chunked', 'CHUNKED'),
  'TE with more space': post('5\r\nhello\r\n0\r\n\r\n', 'Transfer-Encoding:   chunked'),
  'Transfer_Encoding beside CL': post('0\r\n\r\n', 'Transfer_Encoding: chunked', 'Content-Length: 5'),
  'Content_Length beside nothing': get('Content_Length: 50'),
  X_Forwarded_Host: get('X_Forwarded_Host: other.test'),
  'GET with a hidden request as its body': get('Content-Length: $N') + HIDDEN,
  'hidden request as a body': post(HIDDEN, 'Content-Length: $N'),
  'hidden request in a chunk': chunked(`$16N\r\n${HIDDEN}\r\n0\r\n\r\n`),
  'chunk with an extension': chunked('5;a=b;c\r\nhello\r\n0;d\r\n\r\n'),
  trailers: chunked('5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n'),
  'trailer that names a Host': chunked('5\r\nhello\r\n0\r\nHost: other.test\r\n\r\n'),
  'a thousand headers': get(...Array.from({ length: 1000 }, (_, i) => `a${i}: b`)),
  'TE behind two thousand headers': post(
    '5\r\nhello\r\n0\r\n\r\n',
    ...Array(2100).fill('a:'),
    'Transfer-Encoding: chunked',
  ),
  'header with high bytes': get('X: \x80\xff'),
  'absolute target': head('GET http://$H$T HTTP/1.1', 'Host: $H'),
  'absolute target in capitals': head('GET HTTP://$H$T HTTP/1.1', 'Host: $H'),
  'Connection names Content-Length': post('hello', 'Content-Length: 5', 'Connection: Content-Length'),
  'Connection names Transfer-Encoding': chunked(
    '5\r\nhello\r\n0\r\n\r\n',
    'Connection: Transfer-Encoding, keep-alive',
  ),
  'Connection names X-Forwarded-For': get('Connection: close, X-Forwarded-For'),
  'Connection names X-Forwarded-Host': get('Connection: X-Forwarded-Host, X-Forwarded-Proto'),
  'Connection names Host and closes': get('Connection: close, Host'),
  'Transfer_Encoding beside nothing': get('Transfer_Encoding: chunked'),
  'GET with chunks': `${get('Transfer-Encoding: chunked')}5\r\nhello\r\n0\r\n\r\n`,
  'Connection names Host': get('Connection: Host'),
  Expect: post('hello', 'Content-Length: 5', 'Expect: 100-continue'),
  'Upgrade to h2c before a hidden request': get('Connection: Upgrade', 'Upgrade: h2c') + HIDDEN,
  'Upgrade with a body before a hidden request':
    post('hello', 'Content-Length: 5', 'Connection: Upgrade', 'Upgrade: websocket') + HIDDEN,
  'Connection: close before a hidden request': get('Connection: close') + HIDDEN,
  'Trailer names Content-Length': chunked('5\r\nhello\r\n0\r\n\r\n', 'Trailer: Content-Length'),
};

/** Empty lines: refused at the start of a connection, skipped behind a request (RFC 9112 2.2), never forwarded. */
const readOver: Record<string, string> = {
  'CRLF in front': `\r\n${get()}`,
  'two empty lines in front': `\r\n\r\n${line('GET $T HTTP/1.1')}`,
};

/** Samples with another outcome after a request. */
export const READ_OVER: readonly string[] = Object.keys(readOver);

const either: Record<string, string> = {
  ...readOver,
  'CL 05': post('hello', 'Content-Length: 05'),
  'TE with a tab behind': post('5\r\nhello\r\n0\r\n\r\n', 'Transfer-Encoding: chunked\t'),
  'Host with a tab behind': head('GET $T HTTP/1.1', 'Host: $H\t'),
  'chunk with a space behind': chunked('5 \r\nhello\r\n0\r\n\r\n'),
  'chunk with a space before an extension': chunked('5 ;a\r\nhello\r\n0\r\n\r\n'),
  'last chunk 00': chunked('5\r\nhello\r\n00\r\n\r\n'),
  'CL with a tab behind': post('hello', 'Content-Length: 5\t'),
  'chunk with zeros in front': chunked('0000000000000000005\r\nhello\r\n0\r\n\r\n'),
  'trailer that names Content-Length': chunked('5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n'),
  'trailer that names Transfer-Encoding': chunked('5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n'),
};

export const samples: readonly Sample[] = Object.entries({ refused, cut, passed, either }).flatMap(
  ([fate, group]) => Object.entries(group).map(([name, bytes]) => ({ name, bytes, fate: fate as Fate })),
);

/** Bytes of the sample for that host and these paths. */
export function fill(sample: Sample, host: string, path: string, hidden: string): Buffer {
  const put = (text: string) => text.replaceAll('$T', path).replaceAll('$X', hidden).replaceAll('$H', host);
  const length = put(HIDDEN).length;
  const text = put(sample.bytes).replaceAll('$N', `${length}`).replaceAll('$16N', length.toString(16));
  return Buffer.from(text, 'latin1');
}
