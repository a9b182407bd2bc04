// A small report for tests.

import type { Scenario } from '../scenarios/scenario.ts';
import { ratio } from '../scenarios/scenario.ts';
import { Recording, type Report } from './report.ts';

const sampleScenario: Scenario = {
  id: 'a',
  title: 'New connections',
  how: 'As many as there can be.',
  peers: ['causeway', 'haproxy', 'direct'],
  measures: [
    { key: 'cpu', label: 'CPU per connection', unit: 'µs', better: 'lower', picture: 'CPU <per> connection' },
    { key: 'rate', label: 'connections', unit: '/s', better: 'higher' },
    { key: 'never', label: 'never measured', unit: '', better: 'lower' },
  ],
  goals: [
    {
      text: 'CPU against HAProxy',
      unit: '×',
      limit: 1,
      value: of => ratio(of, 'cpu', 'causeway', 'haproxy'),
    },
    { text: 'what was not measured', unit: 'ms', limit: 5, value: of => of('causeway', 'never') },
    { text: 'connections', unit: '/s', limit: 20_000, value: of => of('causeway', 'rate') },
  ],
  run: async () => {},
};

export function sampleReport(): Report {
  const recording = new Recording();
  for (const value of [80, 90, 85]) recording.record('causeway', 'cpu', value);
  for (const value of [60, 68, 70]) recording.record('haproxy', 'cpu', value);
  for (const [column, value] of Object.entries({ causeway: 12_000, haproxy: 15_000, direct: 22_000 }))
    recording.record(column, 'rate', value);
  recording.busy('haproxy', 0.7);
  recording.busy('direct', 0.99);
  recording.failures.push({ column: 'causeway', text: '3 reset' });
  const columns = [
    { id: 'causeway', label: 'Causeway' },
    { id: 'haproxy', label: 'HAProxy' },
    { id: 'direct', label: 'no proxy' },
  ];
  return {
    date: '2026-11-15T07:00:00.000Z',
    command: 'npm run bench -- --scenario a',
    rounds: 3,
    seconds: 1.5,
    pinning: 'load on core 0, proxy on core 1 (taskset); 1 worker each',
    machine: [
      ['processor', '2 × Fast & Co'],
      ['HAProxy', '2.6.12'],
    ],
    scenarios: [recording.report(sampleScenario, columns, 0.25)],
  };
}
