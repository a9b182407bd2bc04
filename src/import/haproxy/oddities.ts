// What is odd in the original, whether it can be carried over or not.

import type { Place } from '../imported.ts';
import type { Report } from './pool.ts';
import type { Rules } from './rules.ts';
import { hasOption, linesOf, modeOf, type Section } from './sections.ts';

export function frontendOddities(section: Section, rules: Rules, report: Report): void {
  for (const { words, place } of linesOf(section, 'bind')) {
    if (words.some(word => word.text === 'accept-proxy'))
      report(
        place,
        'warning',
        'accept-proxy believes a PROXY header from everyone, so anyone can name a client address or an id: narrow balancers or agents of this listener to those who send it',
      );
  }
  const atoms = [...rules.acls].flatMap(([name, all]) => all.map(atom => ({ name, ...atom })));
  const inline = [...rules.gates.flat(), ...rules.routes].flatMap(({ condition }) =>
    condition.terms.flatMap(term => term.flatMap(literal => literal.atoms)),
  );
  const direct = new Map<Place, string>(
    [...atoms, ...inline]
      .filter(({ text }) => text.startsWith('fc_pp_tlv('))
      .map(({ place, text }) => [place, text]),
  );
  for (const [place, text] of direct)
    report(
      place,
      'warning',
      `an ACL on '${text}' that does not match loops in HAProxy 3.0 until its watchdog ends the process (haproxy#3482): until you have moved, use tcp-request content set-var(sess.id) and compare var(sess.id)`,
    );
  for (const [name, all] of rules.acls)
    if (!rules.usedAcls.has(name)) report(all[0].place, 'warning', `ACL '${name}' is not used by any rule`);
  const texts = [...atoms, ...inline];
  const sni = texts.find(({ text }) => /^req[._]ssl_sni/.test(text));
  const opensTls = linesOf(section, 'bind').some(({ words }) => words.some(word => word.text === 'ssl'));
  const hasDelay = linesOf(section, 'tcp-request', 'inspect-delay').length > 0;
  if (sni !== undefined && !hasDelay && modeOf(section) === 'tcp')
    report(
      sni.place,
      'warning',
      `'${section.name}' has no tcp-request inspect-delay: rules on SNI are asked before the hello has come, and miss it`,
    );
  const opened = texts.find(({ text }) => text.startsWith('ssl_fc_sni'));
  if (opened !== undefined && !opensTls)
    report(
      opened.place,
      'warning',
      'ssl_fc_sni is empty where TLS is not opened, so this never matches there: it is read as req.ssl_sni',
    );
}

/** Of a section that some rule leads to. */
export function poolOddities(section: Section, report: Report): void {
  const servers = section.lines.filter(({ words }) => /^server(-template)?$/.test(words[0].text));
  const defaults = [...section.inherited, ...section.lines].filter(
    ({ words }) => words[0].text === 'default-server',
  );
  const isChecked = [...servers, ...defaults].some(({ words }) => words.some(word => word.text === 'check'));
  if (!isChecked && servers.length > 0)
    report(
      servers[0].place,
      'warning',
      'no health checks: a server that is down keeps getting connections there; here backends are checked by default (health: { check: none } turns it off)',
    );
  const option = hasOption(section, 'httpchk') ?? hasOption(section, 'ssl-hello-chk');
  if (!isChecked && option !== undefined)
    report(option.place, 'warning', 'this check never runs: no server has the word check');
}

export function sectionOddities(section: Section, report: Report): void {
  for (const { words, place } of section.lines) {
    const [first, second, third] = words.map(word => word.text);
    if (first === 'http-send-name-header' && second?.toLowerCase() === 'host')
      report(
        place,
        'warning',
        "http-send-name-header Host replaces the Host header by the server's name, which breaks virtual hosts: it is not carried over",
      );
    if (first === 'stats' && second === 'auth')
      report(
        place,
        'warning',
        'the password of the statistics page is in this file in plain text: change it if the file was shared; the dashboard reads its own from a file (admin.auth, passwordFile)',
      );
    if (section.kind === 'userlist' && first === 'user' && third === 'insecure-password')
      report(place, 'warning', 'a password is in this file in plain text: change it if the file was shared');
  }
}
