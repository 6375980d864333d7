/** The picture of a panel's result in the room that the panel has. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { BarChart, type Drawing, HeatMap, LineChart, Tiles } from '../chart.tsx';
import { formatNumber } from '../format.ts';
import type { Form } from '../fragment.ts';
import type { Json } from '../json.ts';
import type { Picture, Tile } from '../picture.ts';
import { titleOf } from '../result.tsx';
import { ResultTable } from '../table.tsx';
import type { Pane } from '../tabs.ts';
import { cut, visible } from '../text.ts';
import type { Panel, Shape } from './document.ts';

/** Room for the title, the legend and the margins of a chart. */
const AROUND_PX = 76;
const CHART_PX_MIN = 90;

export const chartHeight = (bodyPx: number): number => Math.max(CHART_PX_MIN, Math.floor(bodyPx - AROUND_PX));

/** The form of a picture that shows a shape: the worker knows no gauges and no bands. */
export function formOf(shape: Shape): Form | null {
  if (shape === 'auto') return null;
  return shape === 'gauge' ? 'value' : shape === 'bands' ? 'line' : shape;
}

export interface Options {
  measure: string | null;
  min: number;
  max: number;
  unit: string;
}

/** The options of a panel that this page knows. */
export function optionsOf({ show }: Panel): Options {
  const given = show?.options ?? {};
  const own = (name: string): Json | undefined => (Object.hasOwn(given, name) ? given[name] : undefined);
  const [measure, min, max, unit] = [own('measure'), own('min'), own('max'), own('unit')];
  return {
    measure: typeof measure === 'string' ? measure : null,
    min: typeof min === 'number' ? min : 0,
    max: typeof max === 'number' ? max : 100,
    unit: typeof unit === 'string' ? cut(unit, 20) : '',
  };
}

/** One number against its range. */
export function Gauge({ tile, options }: { tile: Tile | undefined; options: Options }): JSX.Element {
  const value = typeof tile?.value === 'number' ? tile.value : null;
  const { min, max, unit } = options;
  const suffix = unit === '' ? '' : ` ${visible(unit)}`;
  return (
    <div class="gauge">
      <b class="tile-value">{value === null ? '–' : `${formatNumber(value)}${suffix}`}</b>
      <meter min={min} max={Math.max(max, min + 1e-9)} value={value ?? min} aria-label={visible(tile?.name ?? 'value')} />
      <span class="gauge-ends dim">
        <span>{formatNumber(min)}</span>
        <span>{formatNumber(max)}</span>
      </span>
    </div>
  );
}

export function PanelPicture(props: { pane: Pane; picture: Picture; shape: Shape; options: Options; height: number }): JSX.Element {
  const { pane, picture, shape, options } = props;
  const drawing: Drawing = useRef(null);
  const title = titleOf(picture);
  const tile = picture.tiles?.find(({ name }) => name === options.measure) ?? picture.tiles?.[0];
  return (
    <>
      {picture.table !== null && <ResultTable tab={pane} picture={picture} table={picture.table} />}
      {picture.json !== null && (
        <pre class="json" tabIndex={0} role="region" aria-label={`JSON of ${picture.json.records} records`}>
          {picture.json.lines.map((line) => visible(line)).join('\n')}
        </pre>
      )}
      {picture.lines !== null && <LineChart picture={picture.lines} form={picture.form} title={title} asTable={false} drawing={drawing} height={chartHeight(props.height)} bands={shape === 'bands'} />}
      {picture.bars !== null && <BarChart picture={picture.bars} title={title} asTable={false} drawing={drawing} />}
      {picture.heat !== null && <HeatMap picture={picture.heat} title={title} drawing={drawing} />}
      {picture.tiles !== null && (shape === 'gauge' ? <Gauge tile={tile} options={options} /> : <Tiles tiles={picture.tiles} title={title} asTable={false} drawing={drawing} />)}
      {picture.note !== '' && <p class="note">{visible(picture.note)}</p>}
    </>
  );
}

/** The width and height of an element in CSS pixels, followed as they change. */
export function useSize(element: HTMLElement | null): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    if (element === null) return;
    const observer = new ResizeObserver((entries) => {
      const found = entries[entries.length - 1]?.contentRect;
      if (found !== undefined) setSize({ width: Math.floor(found.width), height: Math.floor(found.height) });
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return size;
}
