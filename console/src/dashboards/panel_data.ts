/** Where panels get their data: live queries through the worker, and calls that are made again and again. */
import { effect } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { post, serverNow } from '../client.ts';
import type { Form } from '../fragment.ts';
import { formatJson } from '../json.ts';
import { AROUND, Failure, call, problemOfError } from '../objects.ts';
import type { Currency } from '../parts.tsx';
import { Poller, type Reading } from '../poll.ts';
import type { Parameter, Question } from '../protocol.ts';
import { type Pane, look } from '../tabs.ts';
import type { AnswerOf } from './answers.ts';
import type { Panel, Source, Time } from './document.ts';
import { drawPane, keyOf, newPane, subscribe } from './panes.ts';
import { savedQueryText } from './saved.ts';
import { type Range, bind, rangeOf, usesTime } from './variables.ts';

/** The choices of the dashboard's bar, the same for all panels. */
export interface Surround {
  values: ReadonlyMap<string, Parameter>;
  time: Time;
  refreshMs: number;
  /** The moment that live queries take as now: panels with equal queries need equal parameters. */
  begun: number;
}

export type Live = Extract<Source, { kind: 'live' }>;
export type Asked = Extract<Source, { kind: 'view' | 'sql' | 'search' }>;

/** Characters of one answer. */
const ANSWER_LENGTH_MAX = 32 << 20;

/** Keeps the view of a pane in the worker up to date until the component goes. */
function postViews(pane: Pane): () => void {
  return effect(() => post({ do: 'view', result: pane.id, view: pane.view.value }));
}

/** The question of a live panel; null until the text of a saved query is known. */
export function useQuestion(source: Live, { values, time, begun }: Surround): Question | null {
  const name = 'saved' in source ? source.saved : null;
  const [text, setText] = useState<{ name: string; text: string } | null>(null);
  useEffect(() => {
    if (name === null) return;
    const abort = new AbortController();
    void savedQueryText(name, abort.signal).then((found) => !abort.signal.aborted && setText({ name, text: found }));
    return () => abort.abort();
  }, [name]);
  const parameters = bind(source.parameters, values, rangeOf(time, begun));
  if ('saved' in source) return text?.name === name ? { text: text?.text ?? '', dialect: 'native', parameters, saved: source.saved } : null;
  return { text: source.text, dialect: source.dialect ?? 'native', parameters };
}

/** Shows a live query; panels of equal questions share its subscription. */
export function useLivePane(question: Question, form: Form | null, measure: string | null): Pane {
  const key = keyOf(question);
  const pane = useMemo(() => newPane({ form, measure }), [key]);
  useEffect(() => look(pane, { form, measure }), [pane, form, measure]);
  useEffect(() => {
    const { id, leave } = subscribe(question);
    post({ do: 'watch', result: pane.id, of: id });
    const ends = [drawPane(pane), postViews(pane), leave];
    return () => ends.forEach((end) => end());
  }, [pane]);
  return pane;
}

/** Reads as long as the component is mounted, the page is visible, and the panel is on screen. A new `key` begins anew. */
export function usePolled<T>(key: string, intervalMs: number, seen: boolean, read: (signal: AbortSignal) => Promise<T>, came: (data: T) => void): Currency & { data: T | null; at: number | null } {
  const empty: Reading<T> = { data: null, at: null, failure: null, staleSince: null };
  const [state, setState] = useState({ key, reading: empty });
  const newest = useRef({ read, came });
  newest.current = { read, came };
  const poller = useRef<Poller<T> | null>(null);
  useEffect(() => {
    const current = new Poller<T>(AROUND, (signal) => newest.current.read(signal), intervalMs, (reading) => {
      if (reading.failure === null && reading.data !== null) newest.current.came(reading.data);
      setState({ key, reading });
    });
    poller.current = current;
    return () => current.close();
  }, [key, intervalMs]);
  useEffect(() => {
    const show = () => poller.current?.show(seen && !document.hidden);
    document.addEventListener('visibilitychange', show);
    show();
    poller.current?.now();
    return () => document.removeEventListener('visibilitychange', show);
  }, [key, intervalMs, seen]);
  const { data, at, failure, staleSince } = state.key === key ? state.reading : empty;
  return { data, at, problem: failure === null ? null : problemOfError(failure), staleSince, again: () => poller.current?.now() };
}

/** The call that a panel makes for its rows. */
function callOf(source: Asked, values: ReadonlyMap<string, Parameter>, range: Range): [string, RequestInit] {
  const json = { headers: { accept: 'application/json' } };
  if (source.kind === 'sql') {
    const body = formatJson({ query: source.text, parameters: bind(source.parameters, values, range) });
    // The server refuses a statement that changes something.
    return ['v1/sql?read_only=true', { method: 'POST', body, headers: { ...json.headers, 'content-type': 'application/json' } }];
  }
  const query = new URLSearchParams({ limit: String(source.limit ?? (source.kind === 'view' ? 1000 : 100)) });
  if (source.kind === 'view') {
    if (source.prefix !== undefined && source.prefix !== '') query.set('prefix', source.prefix);
    return [`v1/views/${encodeURIComponent(source.view)}?${query}`, json];
  }
  query.append('stream', source.table);
  if (source.query.trim() !== '') query.set('q', source.query);
  query.set('from', new Date(range.from).toISOString());
  query.set('to', new Date(range.to).toISOString());
  query.set('partial', 'true');
  return [`v1/search?${query}`, json];
}

interface Answer {
  text: string;
  /** Names, types and roles of the columns, as JSON; null if the answer does not say them. */
  columns: string | null;
}

/** Shows the rows of a call that is made every `refresh_ms`. */
export function useAnswerPane(panel: Panel & { source: Asked }, surround: Surround, form: Form | null, measure: string | null, seen: boolean): { pane: Pane; read: Currency & { at: number | null } } {
  const { source } = panel;
  const intervalMs = panel.refresh_ms ?? surround.refreshMs;
  // Only what the call depends on begins anew.
  const parameters = source.kind === 'sql' ? source.parameters : undefined;
  const inTime = source.kind === 'search' || usesTime(parameters);
  const key = formatJson([source as never, bind(parameters, surround.values, { from: 0, to: 0 }), inTime ? (surround.time as never) : null, form]);
  const pane = useMemo(() => newPane({ form, measure, visible: false }), [key]);
  useEffect(() => look(pane, { measure }), [pane, measure]);
  useEffect(() => {
    const ends = [drawPane(pane), postViews(pane)];
    return () => ends.forEach((end) => end());
  }, [pane]);
  const read = async (signal: AbortSignal): Promise<Answer> => {
    const [path, request] = callOf(source, surround.values, rangeOf(surround.time, serverNow()));
    const answer = await call(path, { ...request, signal });
    const text = await answer.text();
    if (text.length > ANSWER_LENGTH_MAX) throw new Failure({ title: 'The answer is too large for a panel.', status: 0, detail: `the answer has ${text.length} characters, a panel shows at most ${ANSWER_LENGTH_MAX}`, hint: 'Aggregate in the statement, or add a LIMIT.' });
    return { text: text.trim() === '' ? '[]' : text, columns: answer.headers.get('swiftwater-columns') };
  };
  const of: AnswerOf = source.kind;
  const came = ({ text, columns }: Answer) => {
    const question: Question = { text: source.kind === 'sql' ? source.text : '', dialect: 'native', parameters: [] };
    post({ do: 'answer', result: pane.id, of, question, form, text, columns });
    post({ do: 'view', result: pane.id, view: pane.view.value });
  };
  return { pane, read: usePolled(key, intervalMs, seen, read, came) };
}
