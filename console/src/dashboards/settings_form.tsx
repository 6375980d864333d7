/** The form of a dashboard as a whole: title, text, time, refresh, zone, variables. Nothing changes before *Apply*. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { isZone } from '../fragment.ts';
import { Choice, Field, ProblemBox, TextArea } from '../parts.tsx';
import { readParameter } from '../parameters.ts';
import type { Problem } from '../protocol.ts';
import { Dialog } from '../ui.tsx';
import { type Dashboard, LAST_MS, REFRESH_MS, type Scalar, type Variable, readDashboard } from './document.ts';
import { faultText, jsonOf } from './editing.ts';
import { NumberField } from './panel_form.tsx';
import { typed } from './variables.ts';

interface TypedVariable {
  name: string;
  label: string;
  kind: Variable['kind'];
  usual: string;
  /** Values one a line, or the statement. */
  more: string;
}

const typedVariable = (variable: Variable): TypedVariable => ({
  name: variable.name, label: variable.label ?? '', kind: variable.kind, usual: variable.default === undefined ? '' : typed(variable.default),
  more: variable.kind === 'list' ? variable.values.map(typed).join('\n') : variable.kind === 'query' ? variable.sql : '',
});

const scalarOf = (text: string): Scalar => {
  const value = readParameter(text);
  return typeof value === 'bigint' ? String(value) : value;
};

function variableOf({ name, label, kind, usual, more }: TypedVariable): Variable {
  const shared = { name: name.trim(), ...(label.trim() === '' ? {} : { label: label.trim() }), ...(usual === '' ? {} : { default: scalarOf(usual) }) };
  if (kind === 'list') return { ...shared, kind, values: more.split('\n').filter((line) => line.trim() !== '').map((line) => scalarOf(line.trim())) };
  return kind === 'query' ? { ...shared, kind, sql: more } : { ...shared, kind };
}

export function SettingsForm({ dashboard, onApply, onClose }: { dashboard: Dashboard; onApply(next: Dashboard): void; onClose(): void }): JSX.Element {
  const [title, setTitle] = useState(dashboard.title);
  const [text, setText] = useState(dashboard.description ?? '');
  const [last, setLast] = useState('last_ms' in (dashboard.time ?? { last_ms: LAST_MS }) ? String((dashboard.time as { last_ms: number } | undefined)?.last_ms ?? LAST_MS) : '');
  const [refresh, setRefresh] = useState(String((dashboard.refresh_ms ?? REFRESH_MS) / 1000));
  const [zone, setZone] = useState(dashboard.zone ?? 'browser');
  const [variables, setVariables] = useState(() => (dashboard.variables ?? []).map(typedVariable));
  const [problem, setProblem] = useState<Problem | null>(null);
  const apply = (event: Event) => {
    event.preventDefault();
    const { description: _, variables: __, ...rest } = dashboard;
    const next: Dashboard = {
      ...rest, title: title.trim(), zone: zone.trim(), refresh_ms: Math.round(Number(refresh) * 1000),
      // A range that the form does not show stays.
      ...(last.trim() === '' ? {} : { time: { last_ms: Number(last) } }),
      ...(text.trim() === '' ? {} : { description: text }),
      ...(variables.length === 0 ? {} : { variables: variables.map(variableOf) }),
    };
    const read = readDashboard(jsonOf(next));
    if (zone.trim() !== 'browser' && !isZone(zone.trim())) setProblem({ title: 'This browser knows no such zone.', status: 0 });
    else if ('faults' in read) setProblem({ title: faultText(read.faults), status: 0 });
    else onApply(next);
  };
  return (
    <Dialog title="Settings of the dashboard" wide onClose={onClose}>
      <form class="panel-form" onSubmit={apply}>
        <div class="bar filters">
          <Field label="Title" value={title} onInput={setTitle} />
          <NumberField label="Time, last milliseconds" value={last} onInput={setLast} />
          <NumberField label="Refresh, seconds" value={refresh} onInput={setRefresh} />
          <Field label="Zone: browser, UTC, or an IANA name" value={zone} onInput={setZone} />
        </div>
        <TextArea label="Description, in Markdown" rows={2} value={text} onInput={setText} />
        {variables.map((variable, i) => (
          <VariableFields key={i} number={i + 1} variable={variable} set={(next) => setVariables(variables.with(i, next))} remove={() => setVariables(variables.filter((_, other) => other !== i))} />
        ))}
        <button type="button" onClick={() => setVariables([...variables, { name: `value${variables.length + 1}`, label: '', kind: 'text', usual: '', more: '' }])}>
          Add a variable
        </button>
        {problem !== null && <ProblemBox problem={problem} />}
        <div class="bar">
          <button type="submit" class="primary">
            Apply
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function VariableFields({ number, variable, set, remove }: { number: number; variable: TypedVariable; set(next: TypedVariable): void; remove(): void }): JSX.Element {
  const change = (part: Partial<TypedVariable>) => set({ ...variable, ...part });
  return (
    <fieldset>
      <legend>Variable {number}</legend>
      <div class="bar filters">
        <Field label="Name" value={variable.name} onInput={(name) => change({ name })} />
        <Field label="Label" value={variable.label} onInput={(label) => change({ label })} />
        <Choice label="Kind" value={variable.kind} options={[['text', 'Text'], ['list', 'List'], ['query', 'Answer of a statement']]} onChange={(kind) => change({ kind: kind as Variable['kind'] })} />
        <Field label="Default" value={variable.usual} onInput={(usual) => change({ usual })} />
        <button type="button" aria-label={`Remove variable ${number}`} onClick={remove}>
          Remove
        </button>
      </div>
      {variable.kind !== 'text' && <TextArea label={variable.kind === 'list' ? 'Values, one a line' : 'Statement; its first column has the values'} rows={3} value={variable.more} onInput={(more) => change({ more })} />}
    </fieldset>
  );
}
