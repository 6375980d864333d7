/** The bar above a dashboard: its variables, time, refresh and zone. The address carries what is chosen here. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { serverNow } from '../client.ts';
import { formatDuration } from '../format.ts';
import { isZone } from '../fragment.ts';
import { rowsOf, useWatch } from '../objects.ts';
import { Choice, Field, shown } from '../parts.tsx';
import { browserZone } from '../settings.ts';
import { announce } from '../ui.tsx';
import type { Dashboard, Scalar, Time, Variable } from './document.ts';
import { type Chosen, type Settings, rangeOf, typed } from './variables.ts';

const MINUTE_MS = 60_000;
const LASTS = [1, 5, 15, 60, 6 * 60, 24 * 60, 7 * 24 * 60].map((minutes) => minutes * MINUTE_MS);
const REFRESHES = [1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];
const VALUES_SHOWN = 1000;

const options = (usual: readonly number[], now: number): Array<readonly [string, string]> =>
  [...new Set([...usual, now])].sort((a, b) => a - b).map((ms) => [String(ms), formatDuration(ms)] as const);

export function Bar({ dashboard, settings, chosen, choose }: { dashboard: Dashboard; settings: Settings; chosen: Chosen; choose(chosen: Chosen): void }): JSX.Element {
  const setValue = (name: string, value: string) => choose({ ...chosen, values: new Map(chosen.values).set(name, value) });
  const { zone } = settings;
  return (
    <form class="bar filters dash-bar" aria-label="Variables and time" onSubmit={(event) => event.preventDefault()}>
      {(dashboard.variables ?? []).map((variable) => (
        <VariableField key={`${variable.kind}${variable.name}`} variable={variable} value={settings.typed.get(variable.name) ?? ''} onChange={(value) => setValue(variable.name, value)} />
      ))}
      <TimeFields time={settings.time} onChange={(time) => choose({ ...chosen, time })} />
      <Choice label="Refresh" value={String(settings.refreshMs)} options={options(REFRESHES, settings.refreshMs)} onChange={(ms) => choose({ ...chosen, refreshMs: Number(ms) })} />
      <Choice label="Zone" value={zone} options={[['browser', `Browser's: ${browserZone}`], ['UTC', 'UTC'], ...(zone !== 'browser' && zone !== 'UTC' && isZone(zone) ? [[zone, zone] as const] : [])]} onChange={(value) => choose({ ...chosen, zone: value })} />
    </form>
  );
}

function VariableField({ variable, value, onChange }: { variable: Variable; value: string; onChange(value: string): void }): JSX.Element {
  const label = shown(variable.label !== undefined && variable.label !== '' ? variable.label : variable.name);
  if (variable.kind === 'text') return <TypedField label={label} value={value} onChange={onChange} />;
  if (variable.kind === 'query') return <QueryField label={label} sql={variable.sql} value={value} onChange={onChange} />;
  return <Choice label={label} value={value} options={choicesOf(variable.values, value)} onChange={onChange} />;
}

function choicesOf(values: readonly Scalar[], now: string): Array<readonly [string, string]> {
  const texts = [...new Set(values.slice(0, VALUES_SHOWN).map(typed))];
  if (!texts.includes(now)) texts.unshift(now);
  return texts.map((text) => [text, text === 'null' ? 'none' : shown(text)] as const);
}

/** The first column of a statement's answer. */
function QueryField({ label, sql, value, onChange }: { label: string; sql: string; value: string; onChange(value: string): void }): JSX.Element {
  const read = useWatch(sql, Infinity);
  const values = rowsOf(read.data ?? []).flatMap((row): Scalar[] => {
    const first = Object.values(row)[0];
    if (typeof first === 'bigint') return [String(first)];
    return first === undefined || (first !== null && typeof first === 'object') ? [] : [first];
  });
  const problem = read.problem?.detail ?? read.problem?.title;
  return (
    <span>
      <Choice label={label} value={value} options={choicesOf(values, value)} onChange={onChange} />
      {problem !== undefined && (
        <span class="failing" role="status">
          {label}: {shown(problem, 200)}
        </span>
      )}
    </span>
  );
}

/** A field whose value holds when the reader leaves it or presses Enter: each value asks the queries anew. */
function TypedField({ label, value, onChange }: { label: string; value: string; onChange(value: string): void }): JSX.Element {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <label class="field">
      <span>{label}</span>
      <input type="text" autocomplete="off" spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} onChange={(event) => onChange(event.currentTarget.value)} />
    </label>
  );
}

function TimeFields({ time, onChange }: { time: Time; onChange(time: Time): void }): JSX.Element {
  const last = 'last_ms' in time ? time.last_ms : null;
  const [from, setFrom] = useState('from' in time ? time.from : '');
  const [to, setTo] = useState('to' in time ? time.to : '');
  useEffect(() => {
    if (!('from' in time)) return;
    setFrom(time.from);
    setTo(time.to);
  }, [JSON.stringify(time)]);
  const chooseLast = (value: string) => {
    if (value !== 'range') return onChange({ last_ms: Number(value) });
    const range = rangeOf(time, serverNow());
    return onChange({ from: new Date(range.from).toISOString(), to: new Date(range.to).toISOString() });
  };
  const apply = () => {
    if (Number.isNaN(Date.parse(from)) || Number.isNaN(Date.parse(to))) announce('This is no time. Write it as 2026-11-30T12:00:00Z.');
    else onChange({ from, to });
  };
  const bad = (text: string) => Number.isNaN(Date.parse(text));
  return (
    <>
      <Choice label="Time" value={last === null ? 'range' : String(last)} options={[...(last === null ? options(LASTS, LASTS[0] as number) : options(LASTS, last)).map(([ms, name]) => [ms, `last ${name}`] as const), ['range', 'from … to']]} onChange={chooseLast} />
      {last === null && (
        <>
          <Field label="From" value={from} onInput={setFrom} />
          <Field label="To" value={to} onInput={setTo} />
          <button type="button" onClick={apply} disabled={bad(from) || bad(to)}>
            Set the time
          </button>
        </>
      )}
    </>
  );
}
