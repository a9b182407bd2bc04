// A small line chart of the last minutes, drawn by uPlot. Colours come from the style sheet and are read again when the
// system switches between dark and light. The pointer shows the figure at that moment.

import { type ComponentChild, h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot, { type AlignedData } from 'uplot';
import { formatClock } from './format.ts';
import { HISTORY_SECONDS } from './history.ts';

export interface Line {
  readonly name: string;
  /** A custom property of the style sheet. */
  readonly colour: `--${string}`;
}

interface ChartProps {
  readonly name: string;
  readonly lines: readonly Line[];
  readonly data: AlignedData;
  readonly format: (value: number) => string;
}

/** As in the style sheet. */
const HEIGHT = 52;
/** Two points stretched over the whole width would show nothing. */
const LEAST_SECONDS = 60;

export function Chart({ name, lines, data, format }: ChartProps): ComponentChild {
  const place = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = place.current as HTMLDivElement;
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const show = (text: string) => {
      if (readout.current !== null) readout.current.textContent = text;
    };
    const build = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(lines, format, element.clientWidth, show), latest.current, element);
    };
    build();
    const size = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    size.observe(element);
    dark.addEventListener('change', build);
    return () => {
      dark.removeEventListener('change', build);
      size.disconnect();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [data]);

  return h(
    'div',
    { class: 'chart', role: 'img', 'aria-label': `${name} over the last ${HISTORY_SECONDS / 60} minutes` },
    h('div', { ref: place }),
    h('div', { class: 'readout', ref: readout }),
  );
}

function optionsOf(
  lines: readonly Line[],
  format: (value: number) => string,
  width: number,
  show: (text: string) => void,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [4, 0, 0, 0],
    axes: [{ show: false }, { show: false }],
    scales: {
      // The newest point is at the right edge. A page that was just opened starts with a shorter span.
      x: { range: (_, min, max) => [Math.min(min ?? 0, (max ?? 0) - LEAST_SECONDS), max ?? 0] },
      // From zero, and with a minimum height, so that a single connection does not fill the chart.
      y: { range: (_, __, max) => [0, Math.max(4, (max ?? 0) * 1.1)] },
    },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    series: [
      {},
      ...lines.map(line => ({
        stroke: colour(line.colour),
        fill: `color-mix(in srgb, ${colour(line.colour)} 14%, transparent)`,
        width: 1.5,
        points: { show: false },
      })),
    ],
    hooks: {
      setCursor: [
        ({ cursor: { idx }, data }) => {
          if (idx === null || idx === undefined) return show('');
          const figures = lines.map(({ name }, index) => {
            const value = data[index + 1][idx];
            return `${lines.length > 1 ? `${name} ` : ''}${value === null || value === undefined ? '–' : format(value)}`;
          });
          show(`${formatClock(data[0][idx] * 1000)}  ${figures.join('  ')}`);
        },
      ],
    },
  };
}
