/**
 * The fields of the question's stream, beside the editor: the paths of its newest events with types and shares, and their values.
 *
 * A click on a value adds a condition to the question; "Count by" and the charts open a new question, which runs at once.
 */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { streamOf } from './bql.ts';
import { getText, streams } from './client.ts';
import { type Path, type Scalar, isMostlyNumber, readPaths } from './examples.ts';
import { formatNumber, formatTime, parseTime } from './format.ts';
import { parseJson } from './json.ts';
import { isObject } from './protocol.ts';
import { addCondition, averageOf, chartOf, conditionOf, countBy, eventsWith } from './query_edit.ts';
import { chosenFields, fieldsOpen, zone } from './settings.ts';
import { type Tab, openTab, run } from './tabs.ts';
import { cut, visible } from './text.ts';
import { Icon, announce, toast } from './ui.tsx';

const READ_MS = 30_000;
const SHOWN = 200;
/** The server cuts texts of values here. */
const VALUE_LENGTH_MAX = 200;

/** The server's default stream: undefined before it is known, null if there is none. */
const defaultStream = signal<string | null | undefined>(undefined);

async function readDefaultStream(): Promise<void> {
  if (defaultStream.value !== undefined) return;
  try {
    const server = parseJson(await getText('v1/server'));
    let found = isObject(server) && typeof server.default_stream === 'string' ? server.default_stream : null;
    found ??= await busiest();
    defaultStream.value = found;
  } catch {
    defaultStream.value = null;
  }
}

async function busiest(): Promise<string | null> {
  const known = streams.value?.streams ?? [];
  if (known.length > 0) return known.reduce((a, b) => (b.eventsPerSecond > a.eventsPerSecond ? b : a)).name;
  const list = parseJson(await getText('v1/streams?sort=rate&limit=1'));
  const first = isObject(list) && Array.isArray(list.streams) ? list.streams[0] : undefined;
  return isObject(first) && typeof first.name === 'string' ? first.name : null;
}

export function Fields({ tab }: { tab: Tab }): JSX.Element {
  const open = fieldsOpen();
  const [find, setFind] = useState('');
  const text = tab.text.value;
  const named = useMemo(() => streamOf(text), [text]);
  useEffect(() => {
    if (open) void readDefaultStream();
  }, [open]);
  const stream = named ?? defaultStream.value ?? null;
  const paths = usePaths(open ? stream : null);
  if (!open) {
    return (
      <aside class="fields closed" aria-label="Fields">
        <button type="button" aria-expanded={false} onClick={() => (chosenFields.value = true)}>
          <Icon name="back" />
          Fields
        </button>
      </aside>
    );
  }
  const words = find.toLowerCase().trim();
  const found = (paths ?? []).filter((path) => path.path.toLowerCase().includes(words));
  return (
    <aside class="panel fields" aria-label="Fields">
      <header>
        <h2>Fields{stream === null ? '' : ` of ${visible(cut(stream, 40))}`}</h2>
        <span class="spring" />
        <button type="button" class="quiet" aria-expanded={true} aria-label="Close the fields" title="Close the fields" onClick={() => (chosenFields.value = false)}>
          <Icon name="close" />
        </button>
      </header>
      {(paths?.length ?? 0) > 8 && (
        <label class="find">
          <Icon name="search" />
          <span class="unseen">Find a field</span>
          <input type="search" placeholder="Find a field" value={find} onInput={(event) => setFind(event.currentTarget.value)} />
        </label>
      )}
      {stream === null && <p class="dim">{defaultStream.value === undefined ? 'Reading…' : 'No stream has events yet.'}</p>}
      {stream !== null && paths !== null && paths.length === 0 && <p class="dim">No recent events are in memory.</p>}
      {paths !== null && paths.length > 0 && found.length === 0 && <p class="dim">No field has this name.</p>}
      {stream !== null && found.length > 0 && (
        <ul class="field-list" aria-label="Fields of the stream">
          {found.slice(0, SHOWN).map((path) => (
            <Field key={path.path} tab={tab} stream={stream} path={path} />
          ))}
        </ul>
      )}
      {found.length > SHOWN && <p class="dim">{found.length - SHOWN} more: find them by name.</p>}
    </aside>
  );
}

/** The paths of a stream, read again now and then; null before they are known. */
function usePaths(stream: string | null): Path[] | null {
  const [held, setHeld] = useState<{ stream: string; paths: Path[] } | null>(null);
  useEffect(() => {
    if (stream === null) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      if (!document.hidden) {
        try {
          const paths = readPaths(parseJson(await getText(`v1/streams/${encodeURIComponent(stream)}/paths`, abort.signal)));
          setHeld({ stream, paths });
        } catch {
          if (abort.signal.aborted) return;
          setHeld((before) => (before?.stream === stream ? before : { stream, paths: [] }));
        }
      }
      timer = setTimeout(read, READ_MS);
    };
    // A name that is being typed is not asked for letter by letter.
    timer = setTimeout(read, held === null ? 0 : 400);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [stream]);
  return held !== null && held.stream === stream ? held.paths : null;
}

const percent = (share: number) => `${formatNumber(share * 100, undefined, share < 0.1 ? 1 : 0)} %`;

function typesOf(path: Path): string {
  const types = Object.entries(path.types).sort((a, b) => b[1] - a[1]);
  return types.map(([type, share]) => visible(cut(type, 20)) + (share < 0.995 ? ` ${percent(share)}` : '')).join(', ');
}

function valueText(value: Scalar | null): string {
  if (value === null) return '–';
  if (typeof value === 'number' || typeof value === 'bigint') return formatNumber(value, undefined, 6);
  const time = parseTime(value);
  return time === null ? visible(cut(String(value), 120)) : formatTime(time, zone());
}

function Field({ tab, stream, path }: { tab: Tab; stream: string; path: Path }): JSX.Element {
  const [open, setOpen] = useState(false);
  const present = Math.max(0, 1 - path.absent);
  const ask = (text: string) => run(openTab(text));
  // Lists and objects have no values to count by.
  const plain = (path.types.array ?? 0) + (path.types.object ?? 0) < 0.5;
  return (
    <li>
      <button type="button" class="field" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'down' : 'forward'} />
        <span class="field-name">{visible(cut(path.path, 120))}</span>
        <span class="dim">{typesOf(path)}</span>
        <span class="dim field-share">{percent(present)}</span>
      </button>
      {open && (
        <div class="field-facts">
          {plain && (
            <div class="bar">
              <button type="button" title="Ask for the events of each value a second" onClick={() => ask(countBy(stream, path.path))}>
                Count by
              </button>
              <button type="button" title={isMostlyNumber(path) ? 'Ask for the distribution' : 'Ask for the ten most frequent values'} onClick={() => ask(chartOf(stream, path))}>
                Chart
              </button>
              {isMostlyNumber(path) && (
                <button type="button" title="Ask for the average a second" onClick={() => ask(averageOf(stream, path.path))}>
                  Average
                </button>
              )}
            </div>
          )}
          <dl>
            <div>
              <dt>Least</dt>
              <dd>{valueText(path.least)}</dd>
            </div>
            <div>
              <dt>Greatest</dt>
              <dd>{valueText(path.greatest)}</dd>
            </div>
            <div>
              <dt>Distinct</dt>
              <dd>{formatNumber(path.distinct)}</dd>
            </div>
            <div>
              <dt>Null</dt>
              <dd>{percent(path.nulls)}</dd>
            </div>
            <div>
              <dt>Missing</dt>
              <dd>{percent(path.missing)}</dd>
            </div>
          </dl>
          {path.top.length > 0 && (
            <ul aria-label={`Most frequent values of ${visible(cut(path.path, 60))}`}>
              {path.top.slice(0, 10).map(({ value, share }, i) => (
                <li key={i}>
                  <button
                    type="button"
                    class="field-value"
                    disabled={typeof value === 'string' && value.length >= VALUE_LENGTH_MAX}
                    title="Ask for events with this value"
                    onClick={() => addValue(tab, stream, path.path, value)}
                  >
                    <span class="field-name">{valueText(value)}</span>
                    <meter aria-hidden="true" min={0} max={1} value={Math.min(1, share)} />
                    <span class="dim field-share">{percent(share)}</span>
                  </button>
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </li>
  );
}

/** Adds the condition to the question, or opens a new question where the text has no certain place for it. Nothing runs. */
function addValue(tab: Tab, stream: string, path: string, value: Scalar): void {
  const condition = conditionOf(path, value);
  const changed = tab.dialect.value === 'native' && streamOf(tab.text.value) !== undefined ? addCondition(tab.text.value, condition) : null;
  if (changed !== null) {
    tab.text.value = changed;
    announce(`Added to the question: ${condition}`);
    return;
  }
  const empty = tab.text.value.trim() === '';
  openTab(eventsWith(stream, condition));
  if (!empty) toast('This question has no certain place for a condition: here is a new one.');
}
