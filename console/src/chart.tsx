/**
 * The pictures of a result: curves (uPlot), bars, histograms, heat maps, single values.
 *
 * Each has a title, a summary in words, a cursor by arrow keys that is spoken, its numbers as a table, and itself as PNG. A plot is
 * made once for a set of curves and then gets data alone.
 */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { cellText } from './cells.tsx';
import { formatClock, formatNumber, formatShort, formatTime, zoneName } from './format.ts';
import type { Form } from './fragment.ts';
import { heatColour, ink, seriesColour, seriesDash } from './palette.ts';
import type { BarsPicture, HeatPicture, LinesPicture, Tile } from './picture.ts';
import { isDark, zone } from './settings.ts';
import { visible } from './text.ts';
import { announce, useElement, useWidth } from './ui.tsx';

const HEIGHT = 290;
const TABLE_ROWS_MAX = 200;

/** Where the page finds the picture that is exported as PNG. */
export type Drawing = { current: (() => HTMLCanvasElement | null) | null };

const isOthers = (name: string) => /^others \(\d+\)$/.test(name);

/** Other than results of queries, charts may have their own `height`, what a point is (`of`, in plural), and how values are written. */
export interface LineOptions {
  height?: number;
  of?: string;
  write?: (value: number) => string;
  /** The room between the least and the greatest curve is filled. */
  bands?: boolean;
}

export function LineChart(props: { picture: LinesPicture; form: Form; title: string; asTable: boolean; drawing: Drawing } & LineOptions): JSX.Element {
  const { picture, form, title, asTable, height = HEIGHT, of = 'windows', write, bands = false } = props;
  const valueText = (value: number | null | undefined) => (value === null || value === undefined ? '–' : (write ?? formatNumber)(value));
  const [box, setBox] = useElement<HTMLDivElement>();
  const width = useWidth(box);
  const plot = useRef<uPlot | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const dark = isDark();
  const timeZone = zone();
  const names = picture.series.map((series) => series.name);
  const stacked = form === 'stacked';
  const few = picture.x.length < 40;
  const key = JSON.stringify([names, form, dark, timeZone, few, asTable, bands]);

  const data = useMemo((): uPlot.AlignedData => {
    const seconds = picture.x.map((ms) => ms / 1000);
    if (!stacked) return [seconds, ...picture.series.map((series) => series.values)];
    // Each curve on top of those before it; the highest is drawn first, so that the lower ones stay in sight.
    const sums = seconds.map(() => 0);
    const curves = picture.series.map((series) => series.values.map((value, i) => (value === null ? null : (sums[i] = (sums[i] ?? 0) + value))));
    return [seconds, ...curves.reverse()];
  }, [picture, stacked]);

  useEffect(() => {
    if (asTable || box === null || width === 0) return;
    const colours = ink(dark);
    const order = stacked ? [...names.keys()].reverse() : [...names.keys()];
    const axis: uPlot.Axis = {
      stroke: colours.dim,
      font: '12px system-ui, sans-serif',
      grid: { stroke: colours.line, width: 1 },
      ticks: { stroke: colours.line, width: 1, size: 4 },
    };
    const bars = uPlot.paths.bars?.({ size: [0.85, 40] });
    const made = new uPlot(
      {
        width,
        height,
        legend: { show: false },
        padding: [10, 14, 0, 0],
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), timeZone),
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
        scales: { x: { time: true, range: (self, low, high) => roomForBars(self, low, high, stacked) }, y: { range: (_, low, high) => rangeOf(low, high, form) } },
        bands: bands && !stacked ? bandOf(picture, `${seriesColour(0, dark)}22`) : [],
        hooks: { setCursor: [(self) => setCursor(self.cursor.idx ?? null)] },
        series: [
          {},
          ...order.map((index): uPlot.Series => {
            const name = names[index] ?? '';
            const colour = seriesColour(index, dark, isOthers(name));
            const series: uPlot.Series = { label: name, stroke: colour, width: 1.75, dash: seriesDash(index), points: { show: few, size: 5, fill: colour } };
            if (stacked) return { ...series, width: 0, fill: colour, points: { show: false }, ...(bars === undefined ? {} : { paths: bars }) };
            return form === 'area' ? { ...series, fill: `${colour}2e` } : series;
          }),
        ],
        axes: [
          { ...axis, size: 32, space: 80, values: (_, splits) => splits.map((seconds) => formatClock(seconds * 1000, timeZone, stepIsShort(splits))) },
          { ...axis, size: write === undefined ? 56 : 76, values: (_, splits) => splits.map((value) => (write ?? formatShort)(value)) },
        ],
      },
      data,
      box,
    );
    plot.current = made;
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [key, box, width > 0]);
  useEffect(() => plot.current?.setData(data), [data]);
  useEffect(() => {
    if (width > 0) plot.current?.setSize({ width, height });
  }, [width, height]);
  props.drawing.current = () => (plot.current === null ? null : drawLines(plot.current, names, title, dark));

  const at = cursor !== null && cursor < picture.x.length ? cursor : null;
  const point = at ?? lastWithValue(picture);
  const time = picture.x[point] === undefined ? '' : formatClock(picture.x[point], timeZone, true);
  const move = (event: KeyboardEvent) => {
    const steps: { [key: string]: number } = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };
    const step = steps[event.key];
    if (step === undefined || plot.current === null || picture.x.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next = Math.max(0, Math.min(picture.x.length - 1, point + step));
    plot.current.setCursor({ left: plot.current.valToPos((picture.x[next] as number) / 1000, 'x'), top: 20 });
    const values = picture.series.map((series) => `${series.name} ${valueText(series.values[next])}`).join(', ');
    announce(`${formatClock(picture.x[next] as number, timeZone, true)}: ${visible(values)}`);
  };
  const summary = linesSummary(picture, timeZone, of, write ?? formatNumber);
  if (asTable) {
    const indexes = picture.x.map((_, i) => i).slice(-TABLE_ROWS_MAX).reverse();
    return (
      <DataTable
        caption={`${title}${indexes.length < picture.x.length ? `, the newest ${TABLE_ROWS_MAX} of ${picture.x.length} ${of}` : ''}`}
        head={[of === 'windows' ? 'window end' : 'time', ...names]}
        rows={indexes.map((i) => [formatTime(picture.x[i] as number, timeZone), ...picture.series.map((series) => valueText(series.values[i]))])}
      />
    );
  }
  return (
    <figure class="chart">
      <figcaption>
        {title} <span class="dim">times in {zoneName(picture.x[picture.x.length - 1] ?? Date.now(), timeZone)}</span>
      </figcaption>
      <div ref={setBox} class={height === HEIGHT ? 'plot' : 'plot low'} role="group" tabIndex={0} aria-label={`Chart: ${title}. Arrow keys move the cursor.`} aria-description={summary} onKeyDown={move} />
      <ul class="legend" aria-label={`Values at ${time}`}>
        <li class="legend-time">{time}</li>
        {picture.series.map((series, index) => (
          <li key={series.name}>
            <Swatch colour={seriesColour(index, dark, isOthers(series.name))} dash={stacked ? [] : seriesDash(index)} />
            <span class="legend-name">{visible(series.name)}</span>
            <b>{valueText(series.values[point])}</b>
          </li>
        ))}
      </ul>
      {picture.gaps.length > 0 && (
        <p class="note">Results are missing before {picture.gaps.map((ms) => formatClock(ms, timeZone)).join(', ')}.</p>
      )}
      <p class="unseen">{summary}</p>
    </figure>
  );
}

/** The band from the curve with the greatest mean to the one with the least. */
function bandOf({ series }: LinesPicture, fill: string): uPlot.Band[] {
  const mean = (values: ReadonlyArray<number | null>) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  const order = series.map(({ values }, i) => [mean(values), i + 1] as const).sort(([a], [b]) => b - a);
  const [top, bottom] = [order[0], order[order.length - 1]];
  return top === undefined || bottom === undefined || order.length < 2 ? [] : [{ series: [top[1], bottom[1]], fill }];
}

function Swatch({ colour, dash }: { colour: string; dash: number[] }): JSX.Element {
  return (
    <svg class="swatch" width="18" height="10" aria-hidden="true">
      <line x1="0" y1="5" x2="18" y2="5" stroke={colour} stroke-width="3" stroke-dasharray={dash.join(' ')} />
    </svg>
  );
}

const stepIsShort = (splits: number[]) => (splits[1] ?? 1) - (splits[0] ?? 0) < 1;

/** The range of times; half a bar more at both ends of stacked bars. */
function roomForBars(self: uPlot, low: number, high: number, stacked: boolean): [number, number] {
  const count = self.data[0].length;
  const half = !stacked ? 0 : count > 1 ? (high - low) / (count - 1) / 2 : 0.5;
  return low === high && !stacked ? [low - 0.5, high + 0.5] : [low - half, high + half];
}

/** The range of values, from zero unless all are far from it and lines may stand alone. */
function rangeOf(low: number | null, high: number | null, form: Form): [number, number] {
  if (low === null || high === null) return [0, 1];
  const fromZero = form !== 'line' || (low >= 0 && low < high * 0.8);
  const bottom = fromZero ? Math.min(0, low) : low;
  const top = fromZero ? Math.max(0, high) : high;
  const room = (top - bottom || Math.abs(top) || 1) * 0.06;
  return [bottom < 0 || !fromZero ? bottom - room : bottom, top > 0 || !fromZero ? top + room : top];
}

const valueText = (value: number | null | undefined) => (value === null || value === undefined ? '–' : formatNumber(value));

function lastWithValue(picture: LinesPicture): number {
  for (let i = picture.x.length - 1; i > 0; i -= 1) if (picture.series.some((series) => series.values[i] !== null)) return i;
  return 0;
}

function linesSummary(picture: LinesPicture, timeZone: string, of: string, write: (value: number) => string): string {
  const from = picture.x[0];
  const to = picture.x[picture.x.length - 1];
  if (from === undefined || to === undefined || picture.series.length === 0) return 'No values yet.';
  const parts = picture.series.slice(0, 3).map((series) => {
    const values = series.values.filter((value): value is number => value !== null);
    if (values.length === 0) return `${series.name} has no value`;
    const least = values.reduce((a, b) => Math.min(a, b));
    const most = values.reduce((a, b) => Math.max(a, b));
    return `${series.name} from ${write(least)} to ${write(most)}, last ${write(values[values.length - 1] as number)}`;
  });
  const more = picture.series.length > 3 ? `; ${picture.series.length - 3} more` : '';
  return visible(
    `${picture.series.length} curves of ${picture.measure} over ${picture.x.length} ${of}, ${formatTime(from, timeZone)} to ${formatTime(to, timeZone)}: ${parts.join('; ')}${more}.`,
  );
}

export function DataTable({ caption, head, rows }: { caption: string; head: string[]; rows: string[][] }): JSX.Element {
  return (
    <div class="data-table" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {head.map((name, i) => (
              <th key={i} scope="col">
                {visible(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>{row.map((text, j) => (j === 0 ? <th key={j} scope="row">{visible(text)}</th> : <td key={j}>{text}</td>))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A cursor over a list of things, by arrow keys; each step is spoken. */
function useListCursor(count: number, describe: (index: number) => string): [number | null, (event: KeyboardEvent) => void] {
  const [cursor, setCursor] = useState<number | null>(null);
  const move = (event: KeyboardEvent) => {
    const now = cursor ?? -1;
    let next: number;
    if (event.key === 'ArrowDown' || event.key === 'ArrowRight') next = now + 1;
    else if (event.key === 'ArrowUp' || event.key === 'ArrowLeft') next = now - 1;
    else if (event.key === 'Home') next = 0;
    else if (event.key === 'End') next = count - 1;
    else return;
    event.preventDefault();
    event.stopPropagation();
    next = Math.max(0, Math.min(count - 1, next));
    setCursor(next);
    if (count > 0) announce(describe(next));
  };
  return [cursor !== null && cursor < count ? cursor : null, move];
}

export function BarChart(props: { picture: BarsPicture; title: string; asTable: boolean; drawing: Drawing }): JSX.Element {
  const { picture, title } = props;
  const { bars } = picture;
  const dark = isDark();
  const most = bars.reduce((a, bar) => Math.max(a, bar.value, bar.high ?? 0), 0);
  const least = bars.reduce((a, bar) => Math.min(a, bar.value), 0);
  const span = most - least || 1;
  const place = (value: number) => ((value - least) / span) * 100;
  const bounded = bars.some((bar) => bar.low !== null);
  const describe = (i: number) => {
    const bar = bars[i];
    if (bar === undefined) return '';
    const bounds = bar.low === null ? '' : `, at least ${formatNumber(bar.low)}`;
    return visible(`${bar.label}: ${formatNumber(bar.value)}${bounds}`);
  };
  const [cursor, move] = useListCursor(bars.length, describe);
  props.drawing.current = () => drawBars(picture, title, dark);
  const summary = `${bars.length} bars of ${picture.measure}. ${bars.length > 0 ? `First: ${describe(0)}.` : ''}`;
  if (props.asTable) {
    return (
      <DataTable
        caption={title}
        head={['group', picture.measure, ...(bounded ? ['at least', 'at most'] : [])]}
        rows={bars.map((bar) => [bar.label, formatNumber(bar.value), ...(bounded ? [valueText(bar.low), valueText(bar.high)] : [])])}
      />
    );
  }
  return (
    <figure class="chart">
      <figcaption>
        {title} {bounded && <span class="dim">whiskers show the bounds of the estimate</span>}
      </figcaption>
      <div class="bars" role="group" tabIndex={0} aria-label={`Chart: ${title}. Arrow keys move the cursor.`} aria-description={summary} onKeyDown={move}>
        {bars.map((bar, i) => (
          <div key={`${i}${bar.label}`} class={cursor === i ? 'bar-row marked' : 'bar-row'}>
            <span class="bar-label" title={visible(bar.label)}>
              {visible(bar.label)}
            </span>
            <span class="bar-track">
              <span class="bar-fill" style={{ left: `${place(Math.min(0, bar.value))}%`, width: `${(Math.abs(bar.value) / span) * 100}%` }} />
              {bar.low !== null && bar.high !== null && (
                <span class="whisker" style={{ left: `${place(bar.low)}%`, width: `${((bar.high - bar.low) / span) * 100}%` }} />
              )}
            </span>
            <b class="bar-value">{formatNumber(bar.value)}</b>
          </div>
        ))}
      </div>
      {picture.left > 0 && <p class="note">{formatNumber(picture.left)} more groups are not drawn.</p>}
      <p class="unseen">{summary}</p>
    </figure>
  );
}

export function HeatMap(props: { picture: HeatPicture; title: string; drawing: Drawing }): JSX.Element {
  const { picture, title } = props;
  const dark = isDark();
  let most = 0;
  for (const row of picture.cells) for (const value of row) most = Math.max(most, value ?? 0);
  const [at, setAt] = useState<[number, number] | null>(null);
  props.drawing.current = () => drawHeat(picture, title, most, dark);
  const move = (event: KeyboardEvent) => {
    const steps: { [key: string]: [number, number] } = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const row = Math.max(0, Math.min(picture.down.length - 1, (at?.[0] ?? -1) + step[0]));
    const column = Math.max(0, Math.min(picture.across.length - 1, (at?.[1] ?? 0) + step[1]));
    setAt([row, column]);
    announce(visible(`${picture.down[row]}, ${picture.across[column]}: ${valueText(picture.cells[row]?.[column])}`));
  };
  const summary = `${picture.measure} of ${picture.down.length} × ${picture.across.length} groups, at most ${formatNumber(most)}.`;
  return (
    <figure class="chart">
      <figcaption>
        {title}{' '}
        <span class="dim">
          {visible(picture.keys[0])} down, {visible(picture.keys[1])} across
        </span>
      </figcaption>
      <div class="heat" role="group" tabIndex={0} aria-label={`Heat map: ${title}. Arrow keys move the cursor.`} aria-description={summary} onKeyDown={move}>
        <table>
          <caption class="unseen">{summary}</caption>
          <thead>
            <tr>
              <td />
              {picture.across.map((name) => (
                <th key={name} scope="col" title={visible(name)}>
                  <span>{visible(name)}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {picture.down.map((name, i) => (
              <tr key={name}>
                <th scope="row" title={visible(name)}>
                  {visible(name)}
                </th>
                {picture.cells[i]?.map((value, j) => {
                  const { background, text } = heatColour(value === null || most === 0 ? 0 : value / most, dark);
                  return (
                    <td
                      key={j}
                      class={at !== null && at[0] === i && at[1] === j ? 'marked' : ''}
                      style={value === null ? {} : { backgroundColor: background, color: text }}
                    >
                      {value === null ? '' : formatShort(value)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

export function Tiles(props: { tiles: Tile[]; title: string; asTable: boolean; drawing: Drawing }): JSX.Element {
  const { tiles, title } = props;
  const dark = isDark();
  props.drawing.current = () => drawTiles(tiles, title, dark);
  if (props.asTable) {
    return (
      <DataTable
        caption={title}
        head={['value', 'now', 'before', 'at least', 'at most']}
        rows={tiles.map((tile) => [tile.name, cellText(tile.value), valueText(tile.before), valueText(tile.low), valueText(tile.high)])}
      />
    );
  }
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div class="tiles">
        {tiles.map((tile) => (
          <TileView key={tile.name} tile={tile} dark={dark} />
        ))}
      </div>
    </figure>
  );
}

const tileText = ({ value }: Tile) => (typeof value === 'number' ? formatNumber(value) : cellText(value));

function TileView({ tile, dark }: { tile: Tile; dark: boolean }): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const value = typeof tile.value === 'number' ? tile.value : null;
  const change = value !== null && tile.before !== null ? value - tile.before : null;
  const numbers = tile.trend.filter((one): one is number => one !== null);
  const summary =
    numbers.length > 1
      ? `from ${formatNumber(numbers.reduce((a, b) => Math.min(a, b)))} to ${formatNumber(numbers.reduce((a, b) => Math.max(a, b)))} over ${numbers.length} windows`
      : 'no trend yet';
  const move = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    event.preventDefault();
    event.stopPropagation();
    const last = tile.trend.length - 1;
    const next = Math.max(0, Math.min(last, (at ?? last) + (event.key === 'ArrowLeft' ? -1 : 1)));
    setAt(next);
    announce(`${last - next} windows ago: ${valueText(tile.trend[next])}`);
  };
  return (
    <div class="tile" role="group" tabIndex={0} aria-label={visible(`${tile.name}: ${tileText(tile)}, ${summary}`)} onKeyDown={move}>
      <span class="tile-name">{visible(tile.name)}</span>
      <b class="tile-value">{tileText(tile) || '–'}</b>
      <span class="tile-change dim">
        {change === null ? ' ' : `${change > 0 ? '▲ +' : change < 0 ? '▼ ' : '= '}${change === 0 ? 'as before' : formatNumber(change)}`}
        {tile.low !== null && tile.high !== null && ` · between ${formatNumber(tile.low)} and ${formatNumber(tile.high)}`}
      </span>
      <Spark values={tile.trend} dark={dark} marked={at} height={40} />
    </div>
  );
}

/** A small curve without axes, from zero. */
export function Spark(props: { values: Array<number | null>; dark: boolean; marked?: number | null; height: number }): JSX.Element {
  const [box, setBox] = useElement<HTMLDivElement>();
  const width = useWidth(box);
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const target = canvas.current;
    const context = target?.getContext('2d');
    if (target === null || context === null || context === undefined || width === 0) return;
    const scale = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * scale), Math.round(props.height * scale)];
    if (target.width !== w) target.width = w;
    if (target.height !== h) target.height = h;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, props.height);
    drawSpark(context, props.values, width, props.height, seriesColour(0, props.dark), props.marked ?? null);
  }, [props.values, props.dark, props.marked, props.height, width]);
  return (
    <div ref={setBox} class="spark" style={{ height: `${props.height}px` }}>
      <canvas ref={canvas} aria-hidden="true" style={{ width: `${width}px`, height: `${props.height}px` }} />
    </div>
  );
}

function drawSpark(
  context: CanvasRenderingContext2D,
  values: Array<number | null>,
  width: number,
  height: number,
  colour: string,
  marked: number | null,
): void {
  let most = -Infinity;
  let least = 0;
  for (const value of values) {
    if (value === null) continue;
    most = Math.max(most, value);
    least = Math.min(least, value);
  }
  if (most === -Infinity) return;
  const span = most - least || 1;
  const x = (i: number) => 1.5 + (values.length < 2 ? 0 : (i / (values.length - 1)) * (width - 3));
  const y = (value: number) => height - 2 - ((value - least) / span) * (height - 5);
  const trace = () => {
    context.beginPath();
    let pen = false;
    values.forEach((value, i) => {
      if (value === null) {
        pen = false;
        return;
      }
      if (pen) context.lineTo(x(i), y(value));
      else context.moveTo(x(i), y(value));
      pen = true;
    });
  };
  context.fillStyle = `${colour}24`;
  for (let from = 0; from < values.length; from += 1) {
    let to = from;
    while (to < values.length && values[to] !== null) to += 1;
    if (to - from > 1) {
      context.beginPath();
      context.moveTo(x(from), height);
      for (let i = from; i < to; i += 1) context.lineTo(x(i), y(values[i] as number));
      context.lineTo(x(to - 1), height);
      context.fill();
    }
    from = to;
  }
  trace();
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.lineJoin = 'round';
  context.stroke();
  const dot = marked ?? values.length - 1;
  const value = values[dot];
  if (value !== null && value !== undefined) {
    context.beginPath();
    context.arc(x(dot), y(value), marked === null ? 2 : 4, 0, 7);
    context.fillStyle = colour;
    context.fill();
  }
}

/** A canvas with the panel's colour and a title, at twice the size for sharp print. */
function sheet(width: number, height: number, title: string, dark: boolean): [HTMLCanvasElement, CanvasRenderingContext2D | null] {
  const canvas = document.createElement('canvas');
  canvas.width = width * 2;
  canvas.height = height * 2;
  const context = canvas.getContext('2d');
  if (context !== null) {
    context.scale(2, 2);
    context.fillStyle = ink(dark).panel;
    context.fillRect(0, 0, width, height);
    context.fillStyle = ink(dark).text;
    context.font = '600 14px system-ui, sans-serif';
    context.fillText(visible(title), 12, 22, width - 24);
    context.font = '12px system-ui, sans-serif';
  }
  return [canvas, context];
}

/** The plot with its title above and its legend below. */
function drawLines(plot: uPlot, names: string[], title: string, dark: boolean): HTMLCanvasElement {
  const perRow = Math.max(1, Math.floor((plot.width - 24) / 140));
  const [canvas, context] = sheet(plot.width, 30 + HEIGHT + 14 + Math.ceil(names.length / perRow) * 20, title, dark);
  if (context === null) return canvas;
  context.drawImage(plot.ctx.canvas, 0, 30, plot.width, HEIGHT);
  names.forEach((name, i) => {
    const x = 12 + (i % perRow) * 140;
    const y = 30 + HEIGHT + 18 + Math.floor(i / perRow) * 20;
    context.fillStyle = seriesColour(i, dark, isOthers(name));
    context.fillRect(x, y - 6, 14, 4);
    context.fillStyle = ink(dark).text;
    context.fillText(visible(name), x + 20, y, 112);
  });
  return canvas;
}

function drawBars(picture: BarsPicture, title: string, dark: boolean): HTMLCanvasElement {
  const [canvas, context] = sheet(800, 44 + picture.bars.length * 20, title, dark);
  const most = picture.bars.reduce((a, bar) => Math.max(a, Math.abs(bar.value)), 0) || 1;
  picture.bars.forEach((bar, i) => {
    if (context === null) return;
    const y = 36 + i * 20;
    const width = (Math.abs(bar.value) / most) * 480;
    context.fillStyle = ink(dark).text;
    context.fillText(visible(bar.label), 12, y + 13, 190);
    context.fillText(formatNumber(bar.value), 216 + width + 6, y + 13);
    context.fillStyle = seriesColour(0, dark);
    context.fillRect(210, y + 3, width, 14);
    if (bar.low === null || bar.high === null) return;
    context.strokeStyle = ink(dark).text;
    context.strokeRect(210 + (bar.low / most) * 480, y + 10, ((bar.high - bar.low) / most) * 480, 0.5);
  });
  return canvas;
}

function drawHeat(picture: HeatPicture, title: string, most: number, dark: boolean): HTMLCanvasElement {
  const [canvas, context] = sheet(160 + picture.across.length * 48, 64 + picture.down.length * 22, title, dark);
  if (context === null) return canvas;
  picture.across.forEach((name, j) => {
    context.fillStyle = ink(dark).dim;
    context.fillText(visible(name), 152 + j * 48, 48, 44);
  });
  picture.down.forEach((name, i) => {
    context.fillStyle = ink(dark).text;
    context.fillText(visible(name), 12, 70 + i * 22, 130);
    picture.cells[i]?.forEach((value, j) => {
      if (value === null) return;
      const { background, text } = heatColour(most === 0 ? 0 : value / most, dark);
      context.fillStyle = background;
      context.fillRect(150 + j * 48, 55 + i * 22, 46, 20);
      context.fillStyle = text;
      context.fillText(formatShort(value), 154 + j * 48, 69 + i * 22, 40);
    });
  });
  return canvas;
}

function drawTiles(tiles: Tile[], title: string, dark: boolean): HTMLCanvasElement {
  const [canvas, context] = sheet(Math.max(300, tiles.length * 220), 150, title, dark);
  tiles.forEach((tile, i) => {
    if (context === null) return;
    context.save();
    context.translate(12 + i * 220, 40);
    context.fillStyle = ink(dark).dim;
    context.fillText(visible(tile.name), 0, 10, 200);
    context.fillStyle = ink(dark).text;
    context.font = '600 26px system-ui, sans-serif';
    context.fillText(tileText(tile), 0, 42, 200);
    context.translate(0, 56);
    drawSpark(context, tile.trend, 200, 40, seriesColour(0, dark), null);
    context.restore();
  });
  return canvas;
}
