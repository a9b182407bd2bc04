// Every message about a bad file, with its position and exact text: a reference as much as a test. `warnings` lists
// warnings of files that are served.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatMistake, readConfig, readWithPositions } from './read-config.ts';

interface Case {
  readonly given: string;
  readonly file: string;
  readonly mistakes?: readonly string[];
  readonly warnings?: readonly string[];
}

const groups: Readonly<Record<string, readonly Case[]>> = {
  'The file as a whole': [
    {
      given: 'an empty file',
      file: '',
      mistakes: [
        '1:1: the file is empty: it needs at least one address to listen on, such as  listen: [":6443"]',
      ],
    },
    {
      given: 'a file of comments',
      file: `
# nothing listens yet
`,
      mistakes: [
        '1:1: the file is empty: it needs at least one address to listen on, such as  listen: [":6443"]',
      ],
    },
    {
      given: 'a list at the top level',
      file: `
- ":6443"
`,
      mistakes: [
        '1:1: must be a map with the keys listen, admin, identity, clusters, tunnel, timeouts, retries, limits, stateDir, runDir, engine, workers, log, sources, outputs, lease and statusAnnotation: current value is a list',
      ],
    },
    {
      given: 'no clusters: valid, but nothing is served',
      file: `
listen: [":6443"]
`,
      warnings: ['1:1: clusters: there are no clusters: every connection will be refused'],
    },
    {
      given: 'an explicitly empty list of clusters',
      file: `
listen: [":6443"]
clusters: []
`,
      warnings: ['2:11: clusters: there are no clusters: every connection will be refused'],
    },
    {
      given: 'a key without value is neither an empty list nor a default',
      file: `
listen: [":6443"]
clusters:
  - name: a
    allow:
    api: { hosts: [a.example.com], backends: ["192.0.2.1:6443"] }
timeouts:
`,
      mistakes: [
        '4:11: clusters[0].allow: has no value: must be a list such as [10.0.0.0/8]',
        '6:10: timeouts: has no value: must be a map with the keys hello, connect, idle, stalled, halfClosed, drainDelay, drain and keepalive',
      ],
    },
  ],
  'Unknown keys': [
    {
      given: 'a misspelt key',
      file: `
listne: [":6443"]
clusters:
  - name: a
    api:
      hosts: [a.example.com]
      backend: ["192.0.2.1:6443"]
`,
      mistakes: [
        '1:1: listen: is missing: must be a list such as [":6443"]',
        '1:1: unknown key "listne"; did you mean "listen"?',
        '5:7: clusters[0].api.backends: is missing: must be a list such as ["192.0.2.1:6443"], or [] for none yet',
        '6:7: clusters[0].api: unknown key "backend"; did you mean "backends"?',
      ],
    },
    {
      given: 'an unknown key',
      file: `
listen: [":6443"]
log: { file: /var/log/causeway }
`,
      mistakes: ['2:8: log: unknown key "file"; allowed here: level, format, connections'],
    },
    {
      given: 'several unknown keys, one of them hostile to JavaScript and one to terminals',
      file: `
listen: [{ on: ":6443", __proto__: 1, "\\x1b[2J": 2, agent: [] }]
`,
      mistakes: [
        '1:25: listen[0]: unknown key "__proto__"; allowed here: on, balancers, agents, idTlv, only',
        '1:39: listen[0]: unknown key "\\u001b[2J"; allowed here: on, balancers, agents, idTlv, only',
        '1:53: listen[0]: unknown key "agent"; did you mean "agents"?',
      ],
    },
    {
      given: 'a missing space after the colon',
      file: `
listen: [{on:":6443"}]
`,
      mistakes: [
        '1:10: listen[0].on: is missing: must be ":6443" for every address, "192.0.2.1:6443" or "[2001:db8::1]:6443"',
        '1:11: listen[0]: unknown key "on:\\":6443\\""; a space is missing after the colon',
      ],
    },
    {
      given: '"on" and "off" as rewritten by a YAML 1.1 tool',
      file: `
listen:
  - true: ":6443"
timeouts: { idle: false }
`,
      mistakes: [
        '2:5: listen[0].on: is missing: must be ":6443" for every address, "192.0.2.1:6443" or "[2001:db8::1]:6443"',
        '2:5: listen[0]: unknown key "true"; did you mean "on"? (YAML 1.1 tools turn on into true: quote it)',
        '3:19: timeouts.idle: must be a duration such as 500ms, 5s, 10m, 1h, or off: current value is false (YAML 1.1 tools turn off into false: quote it)',
      ],
    },
  ],
  YAML: [
    {
      given: 'a wildcard without quotes is an alias',
      file: `
listen: [":6443"]
clusters:
  - name: a
    apps:
      hosts: [*.apps.example.com]
      https: ["192.0.2.1:443"]
`,
      mistakes: ['5:15: clusters[0].apps.hosts[0]: a wildcard needs quotes: write "*.apps.example.com"'],
    },
    {
      given: 'an alias without an anchor',
      file: `
listen: *everywhere
`,
      mistakes: ['1:9: listen: "*everywhere" refers to no anchor above it: put it in quotes if it is text'],
    },
    {
      given: 'an alias inside its own target',
      file: `
listen: &all [*all]
`,
      mistakes: ['1:15: listen[0]: "*all" refers to no anchor above it: put it in quotes if it is text'],
    },
    {
      given: 'a duplicate key',
      file: `
listen: [":6443"]
retries: 1
clusters: []
retries: 2
`,
      mistakes: ['4:1: key "retries" is already set at causeway.yaml:2:1: keep one'],
    },
    {
      given: 'a merge key',
      file: `
listen: [":6443"]
timeouts: { <<: { idle: 5m } }
`,
      mistakes: [
        '2:13: timeouts: merge keys are not part of YAML 1.2: spell the keys out, or use an alias for a whole value',
      ],
    },
    {
      given: 'tags',
      file: `
listen: !Sub [":6443"]
retries: !!str 3
stateDir: !!binary aGk=
`,
      mistakes: [
        '1:9: tags other than !!str, !!int, !!float, !!bool, !!null, !!map and !!seq are not supported: remove it',
        '2:16: retries: must be a whole number from 0 to 100, without quotes: current value is "3"',
        '3:11: tags other than !!str, !!int, !!float, !!bool, !!null, !!map and !!seq are not supported: remove it',
      ],
    },
    {
      given: 'a template that was not rendered',
      file: `
listen: {{ .Values.listen }}
`,
      mistakes: ['1:10: listen: a key must be text: put it in quotes if "{", "[", "?" or "*" belongs to it'],
    },
    {
      given: 'two documents',
      file: `
listen: [":6443"]
---
listen: [":443"]
`,
      mistakes: [
        '2:1: a second document starts here, but Causeway reads only one: remove the "---" or "...", or one of the documents',
      ],
    },
    {
      given: 'a directive',
      file: `
%FOO bar
---
listen: [":6443"]
`,
      mistakes: ['1:1: directives (lines that start with "%") are not supported: remove it'],
    },
    {
      given: 'tabs',
      file: `
listen:
\t- ":6443"
`,
      mistakes: ['2:1: tabs cannot indent in YAML: use spaces'],
    },
    {
      given: 'an IPv6 address without quotes',
      file: `
listen:
  - on: [::1]:6443
`,
      mistakes: ['2:14: unexpected text after a value: put the whole value in quotes'],
    },
    {
      given: 'a list on the same line as its key',
      file: `
listen: - ":6443"
`,
      mistakes: ['1:9: a list item cannot start on the same line as its key: put "- …" on its own line'],
    },
    {
      given: 'three independent mistakes',
      file: `
listen: @home
stateDir: "C:\\state"
engine: "net" # fine
log: 'it's'
`,
      mistakes: [
        '1:9: a value cannot start with this character: put it in quotes',
        '2:14: the backslash does not start a YAML escape: double it, or use single quotes',
        '4:10: unexpected text after a value: put the whole value in quotes',
      ],
    },
    {
      given: 'a bracket that is never closed',
      file: `
listen: [":6443"
clusters: []
`,
      mistakes: ['2:1: "[" is not closed: add "]", and indent its contents more than its key'],
    },
    {
      given: 'a brace that is never closed',
      file: `
log: { level: info
retries: 3
`,
      mistakes: ['2:1: "{" is not closed: add "}", and indent its contents more than its key'],
    },
    {
      given: 'a quote that is never closed',
      file: `
listen: [":6443]
clusters: []
`,
      mistakes: ['2:13: a value that starts further up has no closing "'],
    },
    {
      given: 'a single quote that is never closed',
      file: `
listen: ':6443
`,
      mistakes: ["1:15: a value that starts further up has no closing '"],
    },
    {
      given: 'commas',
      file: `
listen: [":6443",, ":443"]
log: { level: info format: json }
`,
      mistakes: [
        '1:18: there is an extra comma: remove it',
        '2:15: a comma is missing before the next key, or a block is inside [ ] or { }',
      ],
    },
    {
      given: 'indentation',
      file: `
listen:
  - on: ":6443"
   agents: []
`,
      mistakes: ['3:1: is not indented like the item above it; a new list item starts with "- "'],
    },
    {
      given: 'too little indentation',
      file: `
listen:
  - on: ":6443"
 agents: []
`,
      mistakes: ['3:1: is not indented like the lines above it'],
    },
    {
      given: 'a key without a colon',
      file: `
listen: [":6443"]
clusters
retries: 3
`,
      mistakes: ['2:1: there is no ":" on this line, or it is indented too far: write "key: value"'],
    },
    {
      given: 'two keys on one line',
      file: `
listen: on: ":6443"
`,
      mistakes: ['1:9: a value that contains ": " needs quotes; a key needs its own line'],
    },
    {
      given: 'nothing after the star',
      file: `
listen: *
`,
      mistakes: ['1:9: a value that starts with "*" needs quotes'],
    },
  ],
  Listeners: [
    {
      given: 'none',
      file: `
listen: []
`,
      mistakes: ['1:9: listen: must have at least one address, such as [":6443"]: current value is []'],
    },
    {
      given: 'values that are not addresses',
      file: `
listen: [6443, "6443", ":65536", "*:6443", "gw.example.com:6443", "::1:6443", "192.0.2.1", "http://:80", "[192.0.2.1]:80"]
`,
      mistakes: [
        '1:10: listen[0]: must be ":6443", with a colon and in quotes: current value is 6443',
        '1:16: listen[1]: must be ":6443", with a colon: current value is "6443"',
        '1:24: listen[2]: must be "address:port" with a port from 0 (any) to 65535: current value is ":65536"',
        '1:34: listen[3]: must be ":6443", which means every address: current value is "*:6443"',
        '1:44: listen[4]: must be ":6443" for every address, "192.0.2.1:6443" or "[2001:db8::1]:6443"; only IP addresses and localhost can be listened on: current value is "gw.example.com:6443"',
        '1:67: listen[5]: must be "[address]:port"; an IPv6 address needs brackets: current value is "::1:6443"',
        '1:79: listen[6]: must be "host:port"; the port is missing: current value is "192.0.2.1"',
        '1:92: listen[7]: must be "host:port", without scheme and path: current value is "http://:80"',
        '1:106: listen[8]: must be "host:port"; brackets are for IPv6 addresses: current value is "[192.0.2.1]:80"',
      ],
    },
    {
      given: 'not a list',
      file: `
listen: ":6443"
`,
      mistakes: ['1:9: listen: must be a list, here [":6443"]: current value is ":6443"'],
    },
    {
      given: 'the same address twice, and overlaps',
      file: `
listen: [":6443", ":6443", "127.0.0.1:6443", "127.0.0.1:443", "localhost:443", "[::1]:443"]
`,
      mistakes: [
        '1:19: listen[1]: ":6443" is already used at causeway.yaml:1:10: keep one',
        '1:28: listen[2]: "127.0.0.1:6443" overlaps ":6443" at causeway.yaml:1:10: keep one, or change a port',
        '1:63: listen[4]: "localhost:443" overlaps "127.0.0.1:443" at causeway.yaml:1:46: keep one, or change a port',
      ],
    },
    {
      given: 'no overlap: different family, different address, port 0',
      file: `
listen: ["0.0.0.0:6443", "[::]:6443", "127.0.0.1:443", "[::1]:443", ":0", ":0"]
`,
      warnings: ['1:1: clusters: there are no clusters: every connection will be refused'],
    },
    {
      given: "in the way of the admin side's default",
      file: `
listen: [":9440"]
`,
      mistakes: [
        '1:10: listen[0]: ":9440" overlaps the default of admin.on, "127.0.0.1:9440": change one of the ports',
      ],
    },
    {
      given: 'CIDRs',
      file: `
listen:
  - on: ":6443"
    balancers: [10.0.0.0/33, "fd00::/129", 10.0.0/8, any, 10]
    agents: 10.0.0.0/8
`,
      mistakes: [
        '3:17: listen[0].balancers[0]: must be a CIDR with a prefix length from 0 to 32: current value is "10.0.0.0/33"',
        '3:30: listen[0].balancers[1]: must be a CIDR with a prefix length from 0 to 128: current value is "fd00::/129"',
        '3:44: listen[0].balancers[2]: must be a CIDR such as 10.0.0.0/8 or "fd00::/8", or an IP address: current value is "10.0.0/8"',
        '3:54: listen[0].balancers[3]: must be a CIDR such as 10.0.0.0/8 or "fd00::/8", or an IP address: current value is "any"',
        '3:59: listen[0].balancers[4]: must be a CIDR such as 10.0.0.0/8 or "fd00::/8", or an IP address: current value is 10',
        '4:13: listen[0].agents: must be a list, here ["10.0.0.0/8"]: current value is "10.0.0.0/8"',
      ],
    },
    {
      given: 'bits beyond the prefix',
      file: `
listen: [{ on: ":6443", balancers: [10.0.0.1/8], agents: ["fd00::1/8", 192.0.2.1] }]
`,
      warnings: [
        '1:1: clusters: there are no clusters: every connection will be refused',
        '1:37: listen[0].balancers[0]: "10.0.0.1/8" means 10.0.0.0/8: bits beyond the prefix are ignored',
        '1:59: listen[0].agents[0]: "fd00::1/8" means fd00::/8: bits beyond the prefix are ignored',
      ],
    },
    {
      given: 'TLV types',
      file: `
listen: [{ on: ":6443", idTlv: [0x20, 0x03, 4, 0xE1, 256, "0x05"] }]
`,
      mistakes: [
        '1:39: listen[0].idTlv[1]: must be a different TLV type: 3 carries the CRC32C checksum',
        '1:45: listen[0].idTlv[2]: must be a different TLV type: 4 carries padding',
        '1:48: listen[0].idTlv[3]: must be a different TLV type: 225 carries the signature of an id',
        '1:54: listen[0].idTlv[4]: must be a whole number from 0 to 255: current value is 256',
        '1:59: listen[0].idTlv[5]: must be a whole number from 0 to 255: current value is "0x05"',
      ],
    },
    {
      given: 'kinds that no cluster has',
      file: `
listen: [{ on: ":6443", only: [api, apps-htps, konnectivity] }]
clusters: [{ name: a, api: { hosts: [a.example.com], backends: ["192.0.2.1:6443"] } }]
`,
      warnings: [
        '1:37: listen[0].only[1]: no cluster has a route of kind "apps-htps"; did you mean "apps-https"?',
        '1:48: listen[0].only[2]: no cluster has a route of kind "konnectivity"',
      ],
    },
  ],
  Clusters: [
    {
      given: 'names and ids',
      file: `
listen: [":6443"]
clusters:
  - id: a b
  - name: Prod
    id: ""
  - name: 5
  - a
`,
      mistakes: [
        '3:5: clusters[0].name: is missing: must be a DNS label of up to 63 lower-case letters, digits and inner hyphens',
        '3:9: clusters[0].id: must be an id of 1 to 128 letters, digits, ".", "_" and "-": current value is "a b"',
        '4:11: clusters[1].name: must be a DNS label of up to 63 lower-case letters, digits and inner hyphens: current value is "Prod"',
        '5:9: clusters[1].id: must be an id of 1 to 128 letters, digits, ".", "_" and "-": current value is ""',
        '6:11: clusters[2].name: must be a DNS label of up to 63 lower-case letters, digits and inner hyphens: current value is 5',
        '7:5: clusters[3]: must be a map with the keys name, id, allow, limits, identity, api, konnectivity, apps and routes: current value is "a"',
      ],
    },
    {
      given: 'hosts',
      file: `
listen: [":6443"]
clusters:
  - name: a
    api:
      backends: ["192.0.2.1:6443"]
      hosts:
        - https://api.example.com/
        - api.example.com:6443
        - api.example.com/v1
        - 192.0.2.1
        - "::1"
        - "*"
        - "**.example.com"
        - "*api.example.com"
        - "api.*.example.com"
        - bücher.example
        - a..example.com
        - -a.example.com
        - "a b"
        - ""
        - 10.0
        - 192.0.2
        - aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com
`,
      mistakes: [
        '7:11: clusters[0].api.hosts[0]: must be only a host name, here "api.example.com", not a URL: current value is "https://api.example.com/"',
        '8:11: clusters[0].api.hosts[1]: must be a host name without a port, here "api.example.com": current value is "api.example.com:6443"',
        '9:11: clusters[0].api.hosts[2]: must be a host name without a path, here "api.example.com": current value is "api.example.com/v1"',
        '10:11: clusters[0].api.hosts[3]: must be a host name, because clients send no SNI for an IP address: current value is "192.0.2.1"',
        '11:11: clusters[0].api.hosts[4]: must be a host name, because clients send no SNI for an IP address: current value is "::1"',
        '12:11: clusters[0].api.hosts[5]: must be "*.example.com" with a domain; "*" alone, for every host that no other route has, is allowed only in apps and routes: current value is "*"',
        '13:11: clusters[0].api.hosts[6]: must be "*.example.com", which matches exactly one label; "**" is not supported: current value is "**.example.com"',
        '14:11: clusters[0].api.hosts[7]: must be "*.example.com", with the wildcard as the whole first label and nowhere else: current value is "*api.example.com"',
        '15:11: clusters[0].api.hosts[8]: must be "*.example.com", with the wildcard as the whole first label and nowhere else: current value is "api.*.example.com"',
        '16:11: clusters[0].api.hosts[9]: must be a host name in ASCII, here "xn--bcher-kva.example": current value is "bücher.example"',
        '17:11: clusters[0].api.hosts[10]: must be a host name such as "api.example.com", or "*.example.com" for exactly one label in front; letters, digits and inner hyphens, separated by single dots: current value is "a..example.com"',
        '18:11: clusters[0].api.hosts[11]: must be a host name such as "api.example.com", or "*.example.com" for exactly one label in front; letters, digits and inner hyphens, separated by single dots: current value is "-a.example.com"',
        '19:11: clusters[0].api.hosts[12]: must be a host name such as "api.example.com", or "*.example.com" for exactly one label in front; letters, digits and inner hyphens, separated by single dots: current value is "a b"',
        '20:11: clusters[0].api.hosts[13]: must be a host name such as "api.example.com", or "*.example.com" for exactly one label in front: current value is ""',
        '21:11: clusters[0].api.hosts[14]: must be a host name such as "api.example.com", or "*.example.com" for exactly one label in front: current value is 10',
        '22:11: clusters[0].api.hosts[15]: must be a host name such as "api.example.com", or "*.example.com" for exactly one label in front; it ends in a number, which only an IP address does: current value is "192.0.2"',
        '23:11: clusters[0].api.hosts[16]: must be a host name whose labels have at most 63 characters: current value is "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com"',
      ],
    },
    {
      given: 'catch-all hosts',
      file: `
listen: [":6443"]
identity: { secretFile: secret }
tunnel: { hosts: ["*"], certificates: [{ certFile: c, keyFile: k }] }
clusters:
  - name: a
    konnectivity: { hosts: ["*"], backends: [] }
    routes:
      first: { hosts: ["*", x.example.com], backends: [] }
      second: { hosts: ["*"], backends: [] }
      third: { hosts: ["*"], alpn: [own], backends: [] }
      fourth: { hosts: ["*", "*"], alpn: [other], connect: ["*"], backends: [] }
  - name: b
    apps: { hosts: ["*"], https: [], http: [] }
  - name: c
    apps: { hosts: ["*"], http: redirect }
`,
      mistakes: [
        '3:19: tunnel.hosts[0]: must be "*.example.com" with a domain; "*" alone, for every host that no other route has, is allowed only in apps and routes: current value is "*"',
        '6:29: clusters[0].konnectivity.hosts[0]: must be "*.example.com" with a domain; "*" alone, for every host that no other route has, is allowed only in apps and routes: current value is "*"',
        '9:25: clusters[0].routes.second.hosts[0]: "*" is already claimed at causeway.yaml:8:24 by route "first" of this cluster; set alpn on one of them to tell them apart',
        '11:30: clusters[0].routes.fourth.hosts[1]: "*" is already in this list: keep one',
        '11:61: clusters[0].routes.fourth.connect[0]: must be a host name such as "api.example.com", without a wildcard: current value is "*"',
        '13:21: clusters[1].apps.hosts[0]: "*" is already claimed at causeway.yaml:11:30 by cluster "a"',
        '15:21: clusters[2].apps.hosts[0]: "*" is already claimed at causeway.yaml:13:21 by cluster "b"',
      ],
    },
    {
      given: 'backends',
      file: `
listen: [":6443"]
clusters:
  - name: a
    api:
      hosts: api.example.com
      backends:
        - 192.0.2.1
        - 192.0.2.1:0
        - 192.0.2.1:65536
        - 192.0.2.1:https
        - 192.0.2.256:6443
        - https://192.0.2.1:6443
        - 2001:db8::1:6443
        - "[2001:db8::1]"
        - 0.0.0.0:6443
        - bücher.example:6443
        - "*.example.com:6443"
        - 6443
    konnectivity: { hosts: [k.example.com] }
`,
      mistakes: [
        '5:14: clusters[0].api.hosts: must be a list, here ["api.example.com"]: current value is "api.example.com"',
        '7:11: clusters[0].api.backends[0]: must be "host:port"; the port is missing: current value is "192.0.2.1"',
        '8:11: clusters[0].api.backends[1]: must be "host:port" with a port from 1 to 65535: current value is "192.0.2.1:0"',
        '9:11: clusters[0].api.backends[2]: must be "host:port" with a port from 1 to 65535: current value is "192.0.2.1:65536"',
        '10:11: clusters[0].api.backends[3]: must be "host:port" with a port from 1 to 65535: current value is "192.0.2.1:https"',
        '11:11: clusters[0].api.backends[4]: must be "host:port"; "192.0.2.256" is not an IPv4 address: current value is "192.0.2.256:6443"',
        '12:11: clusters[0].api.backends[5]: must be "host:port", without scheme and path: current value is "https://192.0.2.1:6443"',
        '13:11: clusters[0].api.backends[6]: must be "[address]:port"; an IPv6 address needs brackets: current value is "2001:db8::1:6443"',
        '14:11: clusters[0].api.backends[7]: must be "[address]:port"; the port is missing: current value is "[2001:db8::1]"',
        '15:11: clusters[0].api.backends[8]: must be an address that can be dialled, which 0.0.0.0 is not: current value is "0.0.0.0:6443"',
        '16:11: clusters[0].api.backends[9]: must be in ASCII, here "xn--bcher-kva.example:6443": current value is "bücher.example:6443"',
        '17:11: clusters[0].api.backends[10]: must be "host:port", such as "192.0.2.1:6443" or "[2001:db8::1]:6443": current value is "*.example.com:6443"',
        '18:11: clusters[0].api.backends[11]: must be "host:port", such as "192.0.2.1:6443" or "[2001:db8::1]:6443": current value is 6443',
        '19:19: clusters[0].konnectivity.backends: is missing: must be a list such as ["192.0.2.1:6443"], or [] for none yet',
      ],
    },
    {
      given: 'everything about health, balance and ALPN',
      file: `
listen: [":6443"]
clusters:
  - name: a
    api:
      hosts: [a.example.com]
      backends: ["192.0.2.1:6443"]
      balance: roundrobin
      health: { check: ping, every: off, timeout: 0s, rise: 0, fall: many, path: readyz, serverName: "*.x" }
      proxyProtocol: v3
      alpn: [h2, ""]
      connect: ["*.x"]
    konnectivity: { hosts: [k.example.com], backends: ["192.0.2.1:8132"], health: { path: /healthz } }
`,
      mistakes: [
        '7:16: clusters[0].api.balance: must be source, host, round-robin, least-connections or random: current value is "roundrobin"; did you mean "round-robin"?',
        '8:24: clusters[0].api.health.check: must be tcp, tls, https, http or none: current value is "ping"',
        '8:37: clusters[0].api.health.every: cannot be off: use check: none to disable health checks',
        '8:51: clusters[0].api.health.timeout: must be longer than 0s: current value is "0s"',
        '8:61: clusters[0].api.health.rise: must be a whole number from 1 to 1000: current value is 0',
        '8:70: clusters[0].api.health.fall: must be a whole number from 1 to 1000: current value is "many"',
        '8:82: clusters[0].api.health.path: must be a path such as "/readyz", without spaces: current value is "readyz"',
        '8:102: clusters[0].api.health.serverName: must be a host name such as "api.example.com", without a wildcard: current value is "*.x"',
        '9:22: clusters[0].api.proxyProtocol: must be none, v1 or v2: current value is "v3"',
        '10:18: clusters[0].api.alpn[1]: must be an ALPN protocol such as h2, of 1 to 255 bytes: current value is ""',
        '11:17: clusters[0].api.connect[0]: must be a host name such as "api.example.com", without a wildcard: current value is "*.x"',
        '12:91: clusters[0].konnectivity.health.path: needs check: https or http: current check is tcp',
      ],
    },
    {
      given: 'applications',
      file: `
listen: [":6443"]
clusters:
  - name: a
    apps: { hosts: ["*.a.example.com"] }
  - name: b
    apps: { hosts: ["*.b.example.com"], https: redirect, http: redirct }
  - name: c
    apps: { hosts: ["*.c.example.com"], https: { backends: [192.0.2.1], hosts: [] }, http: ["192.0.2.1"] }
`,
      mistakes: [
        '4:11: clusters[0].apps: must have https, http or both: both are missing',
        '6:48: clusters[1].apps.https: must be a list of backends or a map: current value is "redirect"',
        '6:64: clusters[1].apps.http: must be a list of backends, a map or "redirect": current value is "redirct"',
        '8:61: clusters[2].apps.https.backends[0]: must be "host:port"; the port is missing: current value is "192.0.2.1"',
        '8:73: clusters[2].apps.https: unknown key "hosts"; allowed here: backends, balance, health, proxyProtocol, connect, allow, alpn',
        '8:93: clusters[2].apps.http[0]: must be "host:port"; the port is missing: current value is "192.0.2.1"',
      ],
    },
    {
      given: "routes of one's own",
      file: `
listen: [":6443"]
clusters:
  - name: a
    routes:
      api: { hosts: [a.example.com], backends: ["192.0.2.1:6443"] }
      apps-http: { hosts: [b.example.com], backends: ["192.0.2.1:6443"] }
      OAuth: { hosts: [c.example.com], backends: ["192.0.2.1:6443"] }
      metrics: ["192.0.2.1:6443"]
`,
      mistakes: [
        '5:7: clusters[0].routes.api: must be a name other than api, konnectivity, apps-https, apps-http or apps; for that route, use the key api of the cluster: current value is "api"',
        '6:7: clusters[0].routes.apps-http: must be a name other than api, konnectivity, apps-https, apps-http or apps; for that route, use the key apps.http of the cluster: current value is "apps-http"',
        '7:7: clusters[0].routes.OAuth: must be a DNS label of up to 63 lower-case letters, digits and inner hyphens: current value is "OAuth"',
        '8:16: clusters[0].routes.metrics: must be a map with the keys hosts, backends, balance, health, proxyProtocol, connect, alpn and allow: current value is a list',
      ],
    },
    {
      given: 'limits',
      file: `
listen: [":6443"]
clusters:
  - name: a
    limits: { connections: 0, perSource: "5", newPerSecond: off }
`,
      mistakes: [
        '4:28: clusters[0].limits.connections: must be a whole number of at least 1, or off: current value is 0',
        '4:42: clusters[0].limits.perSource: must be a whole number of at least 1, or off, without quotes: current value is "5"',
      ],
    },
    {
      given: 'duplicates in a list',
      file: `
listen: [":6443"]
clusters:
  - name: a
    api: { hosts: [a.example.com, A.example.com.], backends: ["[::1]:6443", "[0::1]:6443"], connect: [x, X] }
    apps: { hosts: [b.example.com, b.example.com], https: ["c:443", "C:443"], http: redirect }
`,
      mistakes: [
        '4:35: clusters[0].api.hosts[1]: "a.example.com" is already in this list: keep one',
        '4:77: clusters[0].api.backends[1]: "[::1]:6443" is already in this list: keep one',
        '4:106: clusters[0].api.connect[1]: "x" is already in this list: keep one',
        '5:36: clusters[0].apps.hosts[1]: "b.example.com" is already in this list: keep one',
        '5:69: clusters[0].apps.https[1]: "c:443" is already in this list: keep one',
      ],
    },
    {
      given: 'valid but probably unintended settings',
      file: `
listen: [":6443"]
clusters:
  - name: nothing
  - name: bare
    api: { backends: [] }
    konnectivity: { backends: ["192.0.2.1:8132"] }
    apps: { hosts: [a.example.com], http: redirect }
  - name: by-id
    id: "1"
    api: { backends: ["192.0.2.1:6443"] }
  - name: by-connect
    konnectivity: { backends: ["192.0.2.1:8132"], connect: [k.example.com] }
`,
      warnings: [
        '3:5: clusters[0]: has no routes: nothing of this cluster is reachable',
        '5:10: clusters[1].api: has no backends: its connections will be refused',
        '5:10: clusters[1].api: has no hosts, and its cluster has no id: only a CONNECT to "bare" can reach it',
        '6:19: clusters[1].konnectivity: has no hosts and no connect names: nothing can reach it',
        '7:43: clusters[1].apps.http: redirects to https, which this cluster does not have',
      ],
    },
    {
      given: 'a required signature without an id to sign',
      file: `
listen: [":6443"]
identity: { secretFile: ./secret }
clusters:
  - name: a
    identity: required
    api: { hosts: [a.example.com], backends: ["192.0.2.1:6443"] }
`,
      warnings: [
        '5:15: clusters[0].identity: the cluster has no id to sign: every CONNECT to it will be refused',
      ],
    },
    {
      given: 'signatures required for the whole gateway',
      file: `
listen: [":6443"]
identity: { secretFile: ./secret, required: true }
clusters:
  - name: a
    api: { hosts: [a.example.com], backends: ["192.0.2.1:6443"] }
`,
      warnings: [],
    },
  ],
  Claims: [
    {
      given: 'a host claimed by two clusters',
      file: `
listen: [":6443"]
clusters:
  - name: a
    api: { hosts: [api.example.com], backends: ["192.0.2.1:6443"] }
  - name: b
    konnectivity: { hosts: [API.example.com.], backends: ["192.0.2.2:8132"] }
`,
      mistakes: [
        '6:29: clusters[1].konnectivity.hosts[0]: "API.example.com." is already claimed at causeway.yaml:4:20 by cluster "a"',
      ],
    },
    {
      given: 'an API host or wildcard claimed by two clusters is reported once',
      file: `
listen: [":6443"]
clusters:
  - name: a
    api: { hosts: [api.example.com], backends: ["192.0.2.1:6443"] }
    apps: { hosts: ["*.example.com"], https: ["192.0.2.1:443"], http: redirect }
  - name: b
    api: { hosts: [api.example.com], backends: ["192.0.2.2:6443"] }
    apps: { hosts: ["*.example.com"], https: ["192.0.2.2:443"], http: redirect }
`,
      mistakes: [
        '7:20: clusters[1].api.hosts[0]: "api.example.com" is already claimed at causeway.yaml:4:20 by cluster "a"',
        '8:21: clusters[1].apps.hosts[0]: "*.example.com" is already claimed at causeway.yaml:5:21 by cluster "a"',
      ],
    },
    {
      given: 'a mistake elsewhere in the cluster does not hide a conflict',
      file: `
listen: [":6443"]
clusters:
  - nmae: a
    api: { hosts: [api.example.com], backends: [192.0.2.1] }
  - name: b
    api: { hosts: [api.example.com], backends: ["192.0.2.2:6443"] }
`,
      mistakes: [
        '3:5: clusters[0].name: is missing: must be a DNS label of up to 63 lower-case letters, digits and inner hyphens',
        '3:5: clusters[0]: unknown key "nmae"; did you mean "name"?',
        '4:49: clusters[0].api.backends[0]: must be "host:port"; the port is missing: current value is "192.0.2.1"',
        '6:20: clusters[1].api.hosts[0]: "api.example.com" is already claimed at causeway.yaml:4:20 by clusters[0]',
      ],
    },
    {
      given: 'TLS and cleartext hosts are separate; an exact host under a wildcard is no conflict',
      file: `
listen: [":6443"]
clusters:
  - name: a
    apps: { hosts: ["*.example.com"], https: ["192.0.2.1:443"] }
  - name: b
    apps: { hosts: ["*.example.com"], http: ["192.0.2.2:80"] }
  - name: c
    api: { hosts: [c.example.com], backends: ["192.0.2.3:6443"] }
`,
      warnings: [],
    },
    {
      given: 'a host twice in one cluster',
      file: `
listen: [":6443"]
clusters:
  - name: a
    api: { hosts: [api.example.com], backends: ["192.0.2.1:6443"] }
    konnectivity: { hosts: [api.example.com], backends: ["192.0.2.1:8132"] }
    routes:
      one: { hosts: [api.example.com], backends: ["192.0.2.1:1"], alpn: [x, y] }
      two: { hosts: [api.example.com], backends: ["192.0.2.1:2"], alpn: [y, z] }
      three: { hosts: [api.example.com], backends: ["192.0.2.1:3"], alpn: [z] }
`,
      mistakes: [
        '5:29: clusters[0].konnectivity.hosts[0]: "api.example.com" is already claimed at causeway.yaml:4:20 by route "api" of this cluster; set alpn on one of them to tell them apart',
        '8:22: clusters[0].routes.two.hosts[0]: "api.example.com" is already claimed at causeway.yaml:7:22 by route "one" of this cluster, also for alpn "y"',
        '9:24: clusters[0].routes.three.hosts[0]: "api.example.com" is already claimed at causeway.yaml:8:22 by route "two" of this cluster, also for alpn "z"',
      ],
    },
    {
      given: 'duplicate names and ids',
      file: `
listen: [":6443"]
clusters:
  - { name: a, id: one, api: { backends: ["192.0.2.1:6443"] } }
  - { name: a, id: ONE, api: { backends: ["192.0.2.2:6443"] } }
`,
      mistakes: [
        '4:13: clusters[1].name: "a" is already claimed at causeway.yaml:3:13 as the name of cluster "a"; give each cluster its own name',
        '4:20: clusters[1].id: "ONE" is already claimed at causeway.yaml:3:20 as the id of cluster "a"; give each cluster its own id',
      ],
    },
    {
      given: 'ids, names, API hosts and connect names share one namespace',
      file: `
listen: [":6443"]
clusters:
  - name: a
    id: first
    api: { hosts: [a.example.com], backends: ["192.0.2.1:6443"], connect: [a, first, inner.example.com] }
    konnectivity: { hosts: [k.example.com], backends: ["192.0.2.1:8132"], connect: [a, inner.example.com] }
  - name: first
    id: a
    api: { hosts: [b.example.com], backends: ["192.0.2.2:6443"], connect: [a.example.com, inner.example.com] }
`,
      mistakes: [
        '6:85: clusters[0].konnectivity.connect[0]: "a" is already claimed at causeway.yaml:3:11 as the name of this cluster; a CONNECT name can select only one route',
        '6:88: clusters[0].konnectivity.connect[1]: "inner.example.com" is already claimed at causeway.yaml:5:86 for CONNECT to this cluster; a CONNECT name can select only one route',
        '7:11: clusters[1].name: "first" is already claimed at causeway.yaml:4:9 as the id of cluster "a"; a CONNECT name can select only one route',
        '8:9: clusters[1].id: "a" is already claimed at causeway.yaml:3:11 as the name of cluster "a"; a CONNECT name can select only one route',
        '9:76: clusters[1].api.connect[0]: "a.example.com" is already claimed at causeway.yaml:5:20 as an API host of cluster "a"; a CONNECT name can select only one route',
        '9:91: clusters[1].api.connect[1]: "inner.example.com" is already claimed at causeway.yaml:5:86 for CONNECT to cluster "a"; a CONNECT name can select only one route',
      ],
    },
    {
      given: "the tunnel's hosts",
      file: `
listen: [":6443"]
identity: { secretFile: ./secret }
tunnel: { hosts: [t.example.com], certificates: [{ certFile: ./crt, keyFile: ./key }] }
clusters:
  - name: a
    api: { hosts: [t.example.com], backends: ["192.0.2.1:6443"] }
`,
      mistakes: [
        '6:20: clusters[0].api.hosts[0]: "t.example.com" is already claimed at causeway.yaml:3:19 by the tunnel',
      ],
    },
  ],
  'The rest': [
    {
      given: 'an admin API open to everyone',
      file: `
listen: [":6443"]
admin: { on: ":9440" }
`,
      mistakes: [
        '2:14: admin.on: would let anyone in: set admin.auth, or use "127.0.0.1:9440" to serve only this machine: current value is ":9440"',
      ],
    },
    {
      given: 'users of the admin API',
      file: `
listen: [":6443"]
admin:
  on: 192.0.2.1:9440
  hosts: ["*.example.com"]
  auth:
    - { username: "a:b", passwordFile: ./a }
    - { username: ann, passwordFile: ./a, role: root }
    - { username: ann, password: secret }
  tls: { certFile: ./crt }
`,
      mistakes: [
        '4:11: admin.hosts[0]: must be a host name such as "api.example.com", without a wildcard: current value is "*.example.com"',
        '6:19: admin.auth[0].username: must be a user name without ":": current value is "a:b"',
        '7:49: admin.auth[1].role: must be admin or viewer: current value is "root"',
        '8:7: admin.auth[2].passwordFile: is missing: must be a file name',
        '8:19: admin.auth[2].username: "ann" is already in this list: keep one',
        '8:24: admin.auth[2]: unknown key "password"; did you mean "passwordFile"?',
        '9:8: admin.tls.keyFile: is missing: must be a file name',
      ],
    },
    {
      given: 'timeouts',
      file: `
listen: [":6443"]
timeouts: { hello: 0s, connect: 3, idle: 0s, halfClosed: 1d, drainDelay: off, drain: off, keepalive: 100ms }
`,
      mistakes: [
        '2:20: timeouts.hello: must be longer than 0s: current value is "0s"',
        '2:33: timeouts.connect: must be a duration such as 500ms, 5s, 10m, 1h: current value is 3 (the unit is missing)',
        '2:42: timeouts.idle: must be longer than 0s, or off: current value is "0s"',
        '2:58: timeouts.halfClosed: must be a whole number and a unit, such as 500ms, 5s, 10m, 1h, or off: current value is "1d"',
        '2:74: timeouts.drainDelay: cannot be off: use 0s for no delay',
        '2:86: timeouts.drain: cannot be off: use 0s to cut at once, or a long time such as 24h',
        '2:102: timeouts.keepalive: must be at least 1s, or off: current value is "100ms"',
      ],
    },
    {
      given: 'durations longer than timers support',
      file: `
listen: [":6443"]
timeouts: { hello: off, drain: 1000h, idle: 1h30m }
`,
      mistakes: [
        '2:20: timeouts.hello: cannot be off: use a duration such as 5s',
        '2:32: timeouts.drain: must be at most 596h: current value is "1000h"',
        '2:45: timeouts.idle: must be a whole number and a unit, such as 500ms, 5s, 10m, 1h, or off: current value is "1h30m"',
      ],
    },
    {
      given: 'limits of the gateway',
      file: `
listen: [":6443"]
limits: { connections: off, perSource: -1, pending: 1.5, pendingPerSource: 0 }
`,
      mistakes: [
        '2:24: limits.connections: cannot be off: omit it for the default, (open-file limit - 512) / 2',
        '2:40: limits.perSource: must be a whole number of at least 1, or off: current value is -1',
        '2:53: limits.pending: must be a whole number of at least 1: current value is 1.5',
        '2:76: limits.pendingPerSource: must be a whole number of at least 1, or off: current value is 0',
      ],
    },
    {
      given: 'enumerations and numbers',
      file: `
listen: [":6443"]
retries: "3"
engine: envoy
workers: 0
log: { level: verbose, format: jsn, connections: [all] }
stateDir: 5
statusAnnotation: yes
`,
      mistakes: [
        '2:10: retries: must be a whole number from 0 to 100, without quotes: current value is "3"',
        '3:9: engine: must be auto, epoll, net or haproxy: current value is "envoy"',
        '4:10: workers: must be a whole number from 1 to 1024, or auto: current value is 0',
        '5:15: log.level: must be trace, debug, info, warn, error, fatal or silent: current value is "verbose"',
        '5:32: log.format: must be auto, json or text: current value is "jsn"; did you mean "json"?',
        '5:50: log.connections: must be all, refused or none: current value is a list',
        '6:11: stateDir: must be a directory: current value is 5',
        '7:19: statusAnnotation: must be true or false: current value is "yes"',
      ],
    },
    {
      given: 'signed ids',
      file: `
listen: [":6443"]
tunnel: { on: ":6443", hosts: [], certificates: [] }
clusters:
  - { name: a, identity: required }
  - { name: b, identity: true }
outputs:
  - tenantAgent: { uplink: tunnel }
  - tenantAgent: { uplink: connect }
`,
      mistakes: [
        '2:9: tunnel: signed ids need the top-level key identity.secretFile: it is missing',
        '2:15: tunnel.on: ":6443" is already used at causeway.yaml:1:10: keep one',
        '2:31: tunnel.hosts: must have at least one host: current value is []',
        '2:49: tunnel.certificates: must have at least one: current value is []',
        '4:26: clusters[0].identity: signed ids need the top-level key identity.secretFile: it is missing',
        '5:26: clusters[1].identity: must be "required": current value is true',
        '7:28: outputs[0].tenantAgent.uplink: "tunnel" needs signed ids: add identity: { secretFile: FILE } at the top level, or use another uplink',
      ],
    },
    {
      given: 'sources and outputs',
      file: `
listen: [":6443"]
sources:
  - kamaji
  - kamaji:
  - kamji: {}
  - { kamaji: {}, steward: {} }
  - {}
  - services: { via: nodes }
  - directory: {}
  - clusterApi: { service: "{nom}-control-plane" }
outputs:
  - ingress: { flavour: haproxy }
  - dnsEndpoint: { zone: example.com, targets: [gw.example.com], ttl: 60 }
  - tenantEndpoints: { address: everywhere }
  - dnsEndpoint: { zone: example.com, targets: gateway }
lease: { name: causeway }
`,
      mistakes: [
        '3:5: sources[0]: must be a map with the keys kamaji, steward, hypershift, kubermatic, services, clusterApi, k0smotron and directory: current value is "kamaji"',
        '4:12: sources[1].kamaji: has no value: must be a map with the keys kubeconfig, context, namespaces, selector, domains, via, domain, expose and fix',
        '5:5: sources[2]: unknown key "kamji"; did you mean "kamaji"?',
        '6:5: sources[3]: must have exactly one of the keys kamaji, steward, hypershift, kubermatic, services, clusterApi, k0smotron or directory: it has kamaji and steward',
        '7:5: sources[4]: must have exactly one of the keys kamaji, steward, hypershift, kubermatic, services, clusterApi, k0smotron or directory: it has none',
        '8:15: sources[5].services.domains: is missing: must be a list such as [api.example.com]',
        '8:22: sources[5].services.via: must be endpoints or clusterIP: current value is "nodes"',
        '9:16: sources[6].directory.path: is missing: must be a directory',
        '10:28: sources[7].clusterApi.service: must be the name of a Service such as "{name}-control-plane", with {name} and {namespace} of the Cluster: current value is "{nom}-control-plane"',
        '12:16: outputs[0].ingress: unknown key "flavour"; did you mean "flavor"?',
        '13:49: outputs[1].dnsEndpoint.targets[0]: must be an IP address: current value is "gw.example.com"',
        '13:71: outputs[1].dnsEndpoint.ttl: must be a duration such as 500ms, 5s, 10m, 1h: current value is 60 (the unit is missing)',
        '14:33: outputs[2].tenantEndpoints.address: must be agents or an IP address: current value is "everywhere"',
        '15:48: outputs[3].dnsEndpoint.targets: needs the addresses of this gateway: addresses: [203.0.113.10]',
        '16:8: lease.namespace: is missing: must be a name',
      ],
    },
  ],
};

for (const [group, cases] of Object.entries(groups)) {
  describe(`readConfig() on mistakes: ${group}`, () => {
    for (const { given, file, mistakes, warnings } of cases) {
      test(given, () => {
        const text = file.replace(/^\n/, '');
        const result = readConfig(text, 'causeway.yaml');
        assert.deepEqual(result, readWithPositions(text, 'causeway.yaml'));
        const reported = result.ok ? result.warnings : result.mistakes;
        const lines = reported.map(mistake =>
          formatMistake('causeway.yaml', mistake).slice('causeway.yaml:'.length),
        );
        assert.deepEqual(lines, mistakes ?? warnings);
        assert.equal(result.ok, warnings !== undefined);
      });
    }
  });
}
