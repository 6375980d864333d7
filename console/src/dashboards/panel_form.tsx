/** The form of a panel: title, source, picture, place. Nothing changes before *Apply*. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Choice, Field, ProblemBox, TextArea } from '../parts.tsx';
import type { Problem } from '../protocol.ts';
import { Dialog } from '../ui.tsx';
import { readBound, writeBound } from './bound_text.ts';
import { type Bound, KINDS, type Panel, SHAPES, type Shape, type Source, emptyDashboard, readDashboard } from './document.ts';
import { faultText, jsonOf } from './editing.ts';

const KIND_NAMES: { [kind in (typeof KINDS)[number] | 'saved']: string } = { live: 'Live query', saved: 'Saved live query', view: 'View', sql: 'SQL', search: 'Search', metrics: 'Metrics of this server', text: 'Text' };
const SHAPE_NAMES: { [shape in Shape]: string } = {
  auto: 'Automatic', table: 'Table', json: 'JSON', line: 'Lines', area: 'Area', bar: 'Bars', stacked: 'Stacked', histogram: 'Histogram', heat: 'Heat map', bands: 'Bands', top: 'Top', value: 'Value', gauge: 'Gauge',
};

/** The fields as typed; each kind of source uses some of them. */
interface Typed {
  title: string;
  kind: keyof typeof KIND_NAMES;
  text: string;
  dialect: string;
  parameters: string;
  name: string;
  words: string;
  limit: string;
  as: Shape;
  measure: string;
  min: string;
  max: string;
  unit: string;
  refresh: string;
  place: { x: string; y: string; w: string; h: string };
}

function typedOf({ title, source, show, refresh_ms, x, y, w, h }: Panel): Typed {
  const option = (name: string): string => {
    const value = show?.options !== undefined && Object.hasOwn(show.options, name) ? show.options[name] : undefined;
    return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
  };
  const parameters = 'parameters' in source ? writeBound(source.parameters) : '';
  const text = source.kind === 'metrics' ? source.families.join('\n') : source.kind === 'text' ? source.markdown : 'text' in source ? source.text : '';
  const name = source.kind === 'view' ? source.view : source.kind === 'search' ? source.table : 'saved' in source ? source.saved : '';
  const words = source.kind === 'view' ? (source.prefix ?? '') : source.kind === 'search' ? source.query : '';
  return {
    title: title ?? '', kind: 'saved' in source ? 'saved' : source.kind, text, dialect: 'dialect' in source ? (source.dialect ?? 'native') : 'native', parameters, name, words,
    limit: 'limit' in source && source.limit !== undefined ? String(source.limit) : '',
    as: show?.as ?? 'auto', measure: option('measure'), min: option('min'), max: option('max'), unit: option('unit'),
    refresh: refresh_ms === undefined ? '' : String(refresh_ms / 1000), place: { x: String(x), y: String(y), w: String(w), h: String(h) },
  };
}

function sourceOf(typed: Typed): Source {
  const bound: { parameters?: Bound[] } = typed.parameters.trim() === '' ? {} : { parameters: readBound(typed.parameters) };
  const limit = typed.limit.trim() === '' ? {} : { limit: Number(typed.limit) };
  switch (typed.kind) {
    case 'live':
      return { kind: 'live', text: typed.text, ...(typed.dialect === 'bullet' ? { dialect: 'bullet' as const } : {}), ...bound };
    case 'saved':
      return { kind: 'live', saved: typed.name.trim(), ...bound };
    case 'view':
      return { kind: 'view', view: typed.name.trim(), ...(typed.words.trim() === '' ? {} : { prefix: typed.words.trim() }), ...limit };
    case 'sql':
      return { kind: 'sql', text: typed.text, ...bound };
    case 'search':
      return { kind: 'search', table: typed.name.trim(), query: typed.words, ...limit };
    case 'metrics':
      return { kind: 'metrics', families: typed.text.split(/[\s,]+/).filter((name) => name !== '') };
    case 'text':
      return { kind: 'text', markdown: typed.text };
  }
}

/** The panel of the fields. Options that the form does not know stay as they are. */
function panelOf(typed: Typed, before: Panel): Panel {
  const options = new Map(Object.entries(before.show?.options ?? {}));
  for (const name of ['measure', 'unit'] as const) if (typed[name].trim() === '') options.delete(name);
  else options.set(name, typed[name].trim());
  for (const name of ['min', 'max'] as const) if (typed[name].trim() === '' || Number.isNaN(Number(typed[name]))) options.delete(name);
  else options.set(name, Number(typed[name]));
  return {
    id: before.id,
    ...(typed.title.trim() === '' ? {} : { title: typed.title.trim() }),
    x: Number(typed.place.x), y: Number(typed.place.y), w: Number(typed.place.w), h: Number(typed.place.h),
    source: sourceOf(typed),
    ...(typed.kind === 'text' ? {} : { show: { as: typed.as, ...(options.size === 0 ? {} : { options: Object.fromEntries(options) }) } }),
    ...(typed.refresh.trim() === '' ? {} : { refresh_ms: Math.round(Number(typed.refresh) * 1000) }),
  };
}

export function PanelForm({ panel, isNew, onApply, onClose }: { panel: Panel; isNew: boolean; onApply(panel: Panel): void; onClose(): void }): JSX.Element {
  const [typed, setTyped] = useState(() => typedOf(panel));
  const [problem, setProblem] = useState<Problem | null>(null);
  const set = (change: Partial<Typed>) => setTyped({ ...typed, ...change });
  const apply = (event: Event) => {
    event.preventDefault();
    const next = panelOf(typed, panel);
    const read = readDashboard(jsonOf({ ...emptyDashboard('panel'), panels: [next] }));
    if ('faults' in read) setProblem({ title: faultText(read.faults.map(({ path, message }) => ({ path: path.replace('/panels/0/', ''), message }))), status: 0 });
    else onApply(next);
  };
  return (
    <Dialog title={isNew ? 'Add a panel' : 'Edit the panel'} wide onClose={onClose}>
      <form class="panel-form" onSubmit={apply}>
        <div class="bar filters">
          <Field label="Title" value={typed.title} onInput={(title) => set({ title })} />
          <Choice label="Source" value={typed.kind} options={Object.entries(KIND_NAMES)} onChange={(kind) => set({ kind: kind as Typed['kind'] })} />
          {typed.kind !== 'text' && <Choice label="Show as" value={typed.as} options={SHAPES.map((shape) => [shape, SHAPE_NAMES[shape]] as const)} onChange={(as) => set({ as: as as Shape })} />}
        </div>
        <SourceFields typed={typed} set={set} />
        <fieldset class="bar filters">
          <legend>Place</legend>
          {(['x', 'y', 'w', 'h'] as const).map((name) => (
            <NumberField key={name} label={name} value={typed.place[name]} onInput={(value) => set({ place: { ...typed.place, [name]: value } })} />
          ))}
        </fieldset>
        {typed.kind !== 'text' && <ShapeFields typed={typed} set={set} />}
        {problem !== null && <ProblemBox problem={problem} />}
        <div class="bar">
          <button type="submit" class="primary">
            {isNew ? 'Add' : 'Apply'}
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface Fields {
  typed: Typed;
  set(change: Partial<Typed>): void;
}

function SourceFields({ typed, set }: Fields): JSX.Element {
  const { kind } = typed;
  const long = { live: 'Query, in BQL or Bullet’s JSON form', sql: 'Statement that changes nothing', metrics: 'Families, one a line', text: 'Text, in Markdown' } as const;
  const names = { saved: 'Name of the saved query', view: 'View', search: 'Stream' } as const;
  return (
    <>
      {kind in long && <TextArea label={long[kind as keyof typeof long]} rows={kind === 'metrics' ? 3 : 6} value={typed.text} onInput={(text) => set({ text })} />}
      <div class="bar filters">
        {kind in names && <Field label={names[kind as keyof typeof names]} value={typed.name} onInput={(name) => set({ name })} />}
        {kind === 'view' && <Field label="Key begins with" value={typed.words} onInput={(words) => set({ words })} />}
        {kind === 'search' && <Field label="Words" value={typed.words} onInput={(words) => set({ words })} />}
        {(kind === 'view' || kind === 'search') && <NumberField label="Rows at most" value={typed.limit} onInput={(limit) => set({ limit })} />}
        {kind === 'live' && <Choice label="Dialect" value={typed.dialect} options={[['native', 'BQL'], ['bullet', 'Bullet']]} onChange={(dialect) => set({ dialect })} />}
      </div>
      {(kind === 'live' || kind === 'saved' || kind === 'sql') && (
        <TextArea label="Parameters $1, $2 …, one a line: a value, :name of a variable, @from or @to of the time" rows={2} value={typed.parameters} onInput={(parameters) => set({ parameters })} />
      )}
    </>
  );
}

function ShapeFields({ typed, set }: Fields): JSX.Element {
  return (
    <fieldset class="bar filters">
      <legend>Picture</legend>
      <Field label="Number" value={typed.measure} placeholder="the first" onInput={(measure) => set({ measure })} />
      {typed.as === 'gauge' && (
        <>
          <NumberField label="Least" value={typed.min} onInput={(min) => set({ min })} />
          <NumberField label="Greatest" value={typed.max} onInput={(max) => set({ max })} />
          <Field label="Unit" value={typed.unit} onInput={(unit) => set({ unit })} />
        </>
      )}
      {typed.kind !== 'live' && typed.kind !== 'saved' && <NumberField label="Refresh, seconds" value={typed.refresh} onInput={(refresh) => set({ refresh })} />}
    </fieldset>
  );
}

export function NumberField({ label, value, onInput }: { label: string; value: string; onInput(value: string): void }): JSX.Element {
  return (
    <label class="field short">
      <span>{label}</span>
      <input type="text" inputMode="decimal" autocomplete="off" value={value} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}
