/** The streams: their list, and of each its figures, queries, columns, paths, stored events, bad events, partitions and declaration. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Spark } from './chart.tsx';
import { serverNow } from './client.ts';
import { quoteName } from './examples.ts';
import { formatBytes, formatDuration, formatNumber, formatShort, parseTime } from './format.ts';
import { Newest, ask as askStream } from './home.tsx';
import { type Alteration, type ColumnDraft, type Place, TYPES, alterStream, createStream, dropStatement, quarantined, storedPage } from './ddl.ts';
import { type Json, formatJson } from './json.ts';
import { Failure, type Row, type Watched, getJson, problemOfError, readOnly, rowsOf, send, useWatch } from './objects.ts';
import { features } from './page_table.ts';
import { type Action, ActionDialog, Choice, Code, type Column, Condition, DependentsWarning, Empty, type Fact, Facts, Field, ObjectLink, ObjectTable, PageHeading, Panel, ProblemBox, StatementForm, dependentsOf, numberOf, shown, textOf, timeText, valueColumns, valueText } from './parts.tsx';
import { offsetAfter, offsetOf } from './places.ts';
import { type Problem, isObject } from './protocol.ts';
import { go, object } from './route.ts';
import { Pager } from './sections.tsx';
import { isDark } from './settings.ts';
import { Rates } from './streams_history.ts';
import { columnsOf } from './changes.ts';
import { visible } from './text.ts';
import { announce, toast } from './ui.tsx';
import { type StreamFacts, readStream } from './wire.ts';

const LIST_MS = 2000;
const FACTS_MS = 1000;
const SLOW_MS = 5000;
const PAGE_ROWS = 100;
/** The rows of the list by number; by name it is paged instead. */
const MORE_ROWS_MAX = 500;
const STORED_ROWS = 50;
const LAG_MS_MAX = 1000;
const QUERIES_MAX = 1000;

export function Streams(): JSX.Element {
  const name = object.value;
  return (
    <main id="main" class="page objects">
      {name === null ? <List /> : <Stream name={name} key={name} />}
    </main>
  );
}

const hasSql = (): boolean => features.value?.includes('sql') === true;

function List(): JSX.Element {
  const [prefix, setPrefix] = useState('');
  const [sort, setSort] = useState('rate');
  const [limit, setLimit] = useState(PAGE_ROWS);
  const [pages, setPages] = useState<string[]>([]);
  const [creating, setCreating] = useState(false);
  const byName = sort === 'name';
  const after = byName ? pages[pages.length - 1] : undefined;
  const parameters = new URLSearchParams({ sort, limit: String(byName ? PAGE_ROWS : limit) });
  if (prefix !== '') parameters.set('prefix', prefix);
  if (after !== undefined) parameters.set('after', after);
  const read = useWatch(`v1/streams?${parameters.toString()}`, LIST_MS);
  const data = read.data;
  const list = isObject(data) && Array.isArray(data.streams) ? data.streams.flatMap((one) => readStream(one) ?? []) : [];
  const next = isObject(data) && typeof data.next === 'string' ? data.next : null;
  const begin = (change: () => void) => {
    setPages([]);
    setLimit(PAGE_ROWS);
    change();
  };
  const columns: Array<Column<StreamFacts>> = [
    { title: 'Stream', sort: 'name', cell: (one) => <ObjectLink page="streams" name={one.name} /> },
    { title: 'Events a second', sort: 'rate', number: true, cell: (one) => formatShort(one.eventsPerSecond) },
    { title: 'Events', sort: 'events', number: true, cell: (one) => formatShort(one.events) },
    { title: 'Queries', sort: 'queries', number: true, cell: (one) => formatNumber(one.queries) },
    { title: 'Lag', sort: 'lag', number: true, cell: (one) => formatDuration(one.lagMs), marked: (one) => one.lagMs > LAG_MS_MAX },
    { title: 'Rejected', number: true, cell: (one) => formatNumber(one.rejected), marked: (one) => one.rejected > 0 },
    { title: 'Stored', cell: (one) => (one.stored ? 'stored' : 'live only') },
  ];
  return (
    <>
      <PageHeading title="Streams">
        {!readOnly && hasSql() && (
          <button type="button" aria-expanded={creating} onClick={() => setCreating(!creating)}>
            Create a stream
          </button>
        )}
      </PageHeading>
      {creating && (
        <Panel title="Create a stream">
          <CreateForm
            done={(name) => {
              setCreating(false);
              go('streams', name);
            }}
          />
        </Panel>
      )}
      <section class="panel" aria-label="Streams">
        <div class="bar filters">
          <Field label="Name begins with" value={prefix} onInput={(value) => begin(() => setPrefix(value))} />
          <Choice
            label="Order"
            value={sort}
            options={[
              ['name', 'name'],
              ['rate', 'events a second'],
              ['events', 'events'],
              ['queries', 'queries'],
              ['lag', 'lag'],
            ]}
            onChange={(value) => begin(() => setSort(value))}
          />
        </div>
        <Condition of={read} />
        {data !== null && list.length === 0 && prefix === '' && pages.length === 0 && (
          <Empty text="There is no stream. A stream exists with its first event, or by a statement:" example={'CREATE STREAM clicks WITH (store = true)'} />
        )}
        {data !== null && list.length === 0 && (prefix !== '' || pages.length > 0) && <p class="dim">No stream has such a name.</p>}
        {list.length > 0 && <ObjectTable caption="Streams" columns={columns} rows={list} keyOf={(one) => one.name} sorted={sort} onSort={(key) => begin(() => setSort(key))} />}
        {byName && <Pager pages={pages} next={next} show={setPages} />}
        {!byName && list.length >= limit && (
          <div class="bar pager">
            <span class="dim">The first {formatNumber(list.length)}.</span>
            {limit < MORE_ROWS_MAX ? (
              <button type="button" onClick={() => setLimit(Math.min(MORE_ROWS_MAX, limit * 2))}>
                Show more
              </button>
            ) : (
              <span class="dim">Order by name to page through all.</span>
            )}
          </div>
        )}
      </section>
    </>
  );
}

function Stream({ name }: { name: string }): JSX.Element {
  const encoded = encodeURIComponent(name);
  const read = useWatch(`v1/streams/${encoded}`, FACTS_MS);
  const facts = read.data === null ? null : readStream(read.data);
  const [action, setAction] = useState<Action | null>(null);
  const sql = hasSql();
  const created = useWatch(sql ? `SHOW CREATE STREAM ${quoteName(name)}` : null, SLOW_MS);
  const text = textOf(rowsOf(created.data ?? [])[0]?.statement);
  const isDeclared = text !== '';
  const partitions = useWatch(sql ? 'SHOW PARTITIONS' : null, SLOW_MS);
  const ofStream = rowsOf(partitions.data ?? []).filter((row) => row.stream === name);
  const isOfCluster = ofStream.some(ofCluster);
  const noStream = read.problem?.status === 404 && !isDeclared;
  return (
    <>
      <PageHeading of="streams" title={shown(name, 140)}>
        <button type="button" onClick={() => askStream({ text: `SELECT *\nFROM STREAM(${quoteName(name)}, MAX, TIME)` })}>
          Ask
        </button>
        {!readOnly && isDeclared && <DropButton name={name} open={setAction} />}
      </PageHeading>
      {noStream ? (
        <div class="panel">
          <Empty text="There is no stream of this name. It exists with its first event, or by a statement:" example={`CREATE STREAM ${quoteName(name)} WITH (store = true)`} />
          {!readOnly && <SendEvent name={name} />}
        </div>
      ) : (
        <div class="columns">
          <div class="column">
            <Panel title="Figures" note="since the server started">
              {read.problem?.status === 404 ? <p class="dim">No event has arrived since the server started.</p> : <Condition of={read} />}
              {facts !== null && isObject(read.data) && <Figures facts={facts} data={read.data} />}
            </Panel>
            <Newest stream={name} />
            <Paths name={name} />
            {(facts?.stored === true || /store = true/.test(text)) && sql && <Stored name={name} />}
          </div>
          <div class="column">
            <Queries name={name} running={facts?.queries ?? null} open={setAction} />
            {sql && <Declaration name={name} text={text} read={created} />}
            {sql && <Partitions name={name} read={partitions} rows={ofStream} open={setAction} />}
            {sql && /quarantine/i.test(text) && <Quarantine name={name} />}
            {!readOnly && (
              <Panel title="Send a test event">
                <SendEvent name={name} />
              </Panel>
            )}
            {!readOnly && isDeclared && !isOfCluster && (
              <Panel title="Alter the stream">
                <AlterForm name={name} first={DECLARES_COLUMNS.test(text) ? 'add' : 'set'} done={() => created.again()} />
              </Panel>
            )}
          </div>
        </div>
      )}
      {action !== null && <ActionDialog action={action} onClose={() => setAction(null)} />}
    </>
  );
}

function Figures({ facts, data }: { facts: StreamFacts; data: { [name: string]: Json } }): JSX.Element {
  const list: Fact[] = [
    { name: 'Events', value: formatNumber(facts.events) },
    { name: 'Bytes', value: formatBytes(numberOf(data.bytes)) },
    { name: 'Bytes a second', value: formatBytes(facts.bytesPerSecond) },
    { name: 'Rejected', value: formatNumber(facts.rejected), warn: facts.rejected > 0 },
    { name: 'Lag of queries', value: formatDuration(facts.lagMs), warn: facts.lagMs > LAG_MS_MAX },
    { name: 'Waiting', value: formatBytes(facts.pendingBytes) },
    { name: 'Position', value: formatNumber(numberOf(data.position)) },
    { name: 'Newest event', value: timeText(data.newest_arrival) || 'none' },
    { name: 'Stored', value: facts.stored ? `yes, ${formatDuration(facts.storedLagMs)} behind` : 'live only' },
  ];
  if (facts.sample !== null) list.push({ name: 'Sample', value: `${formatNumber(facts.sample * 100)} %`, warn: facts.sample < 1 });
  return (
    <>
      <Curve facts={facts} />
      <Facts facts={list} />
    </>
  );
}

/** Events a second of the last minutes: the server's history first, then each reading. */
function Curve({ facts }: { facts: StreamFacts }): JSX.Element {
  const rates = useRef(new Rates());
  const [, redraw] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    getJson('v1/metrics/history?name=swiftwater_stream_events_total', abort.signal)
      .then((data) => {
        rates.current.begin(data);
        redraw((n) => n + 1);
      })
      .catch(() => {
        // A server without history: the curve begins now.
      });
    return () => abort.abort();
  }, []);
  useMemo(() => rates.current.add(serverNow(), [facts]), [facts]);
  return (
    <div class="stream-curve">
      <span>
        <b>{formatShort(facts.eventsPerSecond)}</b> <span class="dim">events a second, last 15 minutes</span>
      </span>
      <Spark values={[...rates.current.of(facts.name)]} dark={isDark()} height={64} />
    </div>
  );
}

/** `running`: how many queries the stream has by its figures; null: not known. */
function Queries({ name, running, open }: { name: string; running: number | null; open(action: Action): void }): JSX.Element {
  const read = useWatch(`v1/queries?prefix=${encodeURIComponent(name)}&sort=cpu&limit=${QUERIES_MAX}`, LIST_MS);
  const all = isObject(read.data) && Array.isArray(read.data.queries) ? rowsOf(read.data.queries) : [];
  // Names of other streams and ids of queries may begin with this name; the list has ended queries, too.
  const rows = all.filter((row) => row.stream === name && typeof row.finished !== 'string');
  const cost = (row: Row, part: string): number => (isObject(row.cost) ? numberOf(row.cost[part]) : 0);
  const columns: Array<Column<Row>> = [
    { title: 'Query', wide: true, cell: (row) => <code title={shown(textOf(row.text), 1000)}>{shown(textOf(row.text).replace(/\s+/g, ' '), 120)}</code> },
    { title: 'Processor', number: true, cell: (row) => formatDuration(cost(row, 'cpu_nanos') / 1e6) },
    { title: 'Matches', number: true, cell: (row) => formatShort(cost(row, 'matches')) },
    { title: 'State', number: true, cell: (row) => formatBytes(numberOf(row.state_bytes)) },
    { title: 'Lag', number: true, cell: (row) => formatDuration(numberOf(row.lag_ms)) },
    { title: 'Since', cell: (row) => timeText(row.received) },
  ];
  if (!readOnly) {
    columns.splice(1, 0, {
      title: 'Actions',
      cell: (row) => (
        <button
          type="button"
          aria-label={`End query ${shown(textOf(row.id), 40)}`}
          onClick={() => {
            const id = textOf(row.id);
            open({
              title: 'End the query',
              statement: `${shown(textOf(row.text), 2000)}`,
              button: 'End this query',
              danger: true,
              warning: <p>The query ends for each of its readers. It cannot be continued.</p>,
              run: () => send('DELETE', `v1/queries/${encodeURIComponent(id)}`, null),
              done: read.again,
            });
          }}
        >
          End
        </button>
      ),
    });
  }
  return (
    <Panel title="Queries" note="the most expensive first">
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && running === 0 && <p class="dim">No query runs over this stream. Ask runs one.</p>}
      {read.data !== null && rows.length === 0 && running !== null && running > 0 && <p class="dim">The queries of this stream are not in the server's list: {formatNumber(running)} run.</p>}
      {rows.length > 0 && <ObjectTable caption="Queries over this stream" columns={columns} rows={rows} keyOf={(row) => textOf(row.id)} />}
    </Panel>
  );
}

function Declaration({ name, text, read }: { name: string; text: string; read: Watched }): JSX.Element {
  const described = useWatch(text === '' ? null : `DESCRIBE STREAM ${quoteName(name)}`, SLOW_MS);
  const rows = rowsOf(described.data ?? []);
  const columns: Array<Column<Row>> = [
    { title: 'Column', cell: (row) => shown(textOf(row.column)) },
    { title: 'Type', cell: (row) => shown(textOf(row.type)) },
    { title: 'Null', cell: (row) => (row.nullable === false ? 'no' : 'allowed') },
    { title: 'Default', cell: (row) => shown(textOf(row.default)) },
    { title: 'Checks', wide: true, cell: (row) => shown(textOf(row.checks), 200) },
  ];
  return (
    <Panel title="Columns">
      {text === '' && read.problem !== null && (
        <p class="dim">{read.problem.status === 404 ? 'The stream is not declared: nobody created it.' : shown(read.problem.detail ?? read.problem.title, 200)}</p>
      )}
      {text !== '' && (described.problem?.status === 404 ? <p class="dim">No column is declared.</p> : <Condition of={described} />)}
      {text !== '' && described.data !== null && rows.length === 0 && <p class="dim">No column is declared, and none is found in events yet.</p>}
      {rows.length > 0 && <ObjectTable caption="Columns" columns={columns} rows={rows} keyOf={(_, i) => i} />}
      {text !== '' && <Code text={text} label="Declaration" />}
    </Panel>
  );
}

function Paths({ name }: { name: string }): JSX.Element {
  const read = useWatch(`v1/streams/${encodeURIComponent(name)}/paths`, SLOW_MS);
  const data = isObject(read.data) ? read.data : {};
  const rows = rowsOf(data.paths ?? []);
  const share = (value: Json | undefined): string => `${formatNumber(numberOf(value) * 100, undefined, 1)} %`;
  const types = (row: Row): string => (isObject(row.types) ? Object.entries(row.types).map(([type, of]) => (of === 1 ? type : `${type} ${share(of)}`)).join(', ') : '');
  const top = (row: Row): string =>
    rowsOf(row.top ?? [])
      .slice(0, 5)
      .map((one) => `${shown(valueText(one.value), 24)} ${share(one.share)}`)
      .join(' · ');
  const columns: Array<Column<Row>> = [
    { title: 'Path', cell: (row) => <code>{shown(textOf(row.path))}</code> },
    { title: 'Types', cell: (row) => visible(types(row)) },
    { title: 'Absent', number: true, cell: (row) => share(numberOf(row.null) + numberOf(row.missing)) },
    { title: 'Distinct', number: true, cell: (row) => formatNumber(numberOf(row.distinct)) },
    { title: 'Most frequent values', wide: true, cell: top },
  ];
  return (
    <Panel title="Paths" note={numberOf(data.events) > 0 ? `of the newest ${formatNumber(numberOf(data.events))} events` : ''}>
      {read.problem?.status === 404 ? <p class="dim">There is no sample of this stream.</p> : <Condition of={read} />}
      {read.data !== null && rows.length === 0 && <p class="dim">No events are in memory.</p>}
      {rows.length > 0 && <ObjectTable caption="Paths of the newest events" columns={columns} rows={rows} keyOf={(row, i) => `${textOf(row.path)} ${i}`} />}
    </Panel>
  );
}

/** Stored events, page by page. Nothing is read before the first click. */
function Stored({ name }: { name: string }): JSX.Element {
  const [place, setPlace] = useState<Place | null>(null);
  const [offset, setOffset] = useState('');
  const [time, setTime] = useState('');
  const [wrong, setWrong] = useState<string | null>(null);
  const read = useWatch(place === null ? null : storedPage(name, place, STORED_ROWS), Infinity);
  const rows = useMemo(() => {
    const found = rowsOf(read.data ?? []);
    return [...found].sort((a, b) => numberOf(a._offset) - numberOf(b._offset));
  }, [read.data]);
  const first = rows[0];
  const last = rows[rows.length - 1];
  /** The same place again is read again. */
  const open = (to: Place) => {
    if (place !== null && storedPage(name, place, STORED_ROWS) === storedPage(name, to, STORED_ROWS)) read.again();
    else setPlace(to);
  };
  const toTime = () => {
    const ms = parseTime(time.trim()) ?? parseTime(`${time.trim()}Z`);
    setWrong(ms === null ? 'Write a time such as 2026-11-30T12:00:00Z.' : null);
    if (ms !== null) open({ time: new Date(ms).toISOString() });
  };
  const toOffset = () => {
    const at = Number(offset.trim());
    const valid = offset.trim() !== '' && Number.isSafeInteger(at) && at >= 0;
    setWrong(valid ? null : 'Write an offset: a whole number from 0.');
    if (valid) open({ from: at });
  };
  return (
    <Panel title="Stored events">
      <div class="bar filters">
        <button type="button" onClick={() => open({ newest: true })}>
          Newest
        </button>
        <button type="button" onClick={() => open({ from: 0 })}>
          Oldest
        </button>
        <form
          class="bar"
          onSubmit={(event) => {
            event.preventDefault();
            toOffset();
          }}
        >
          <Field label="Offset" value={offset} onInput={setOffset} placeholder="0" />
          <button type="submit">Go to the offset</button>
        </form>
        <form
          class="bar"
          onSubmit={(event) => {
            event.preventDefault();
            toTime();
          }}
        >
          <Field label="Arrival from" value={time} onInput={setTime} placeholder="2026-11-30T12:00:00Z" />
          <button type="submit">Go to the time</button>
        </form>
      </div>
      {wrong !== null && (
        <p class="fault bad" role="alert">
          {wrong}
        </p>
      )}
      {place === null ? <p class="dim">Choose where to begin. Each page is one statement that reads the table.</p> : <Condition of={read} />}
      {place !== null && read.data !== null && rows.length === 0 && <p class="dim">There are no events here.</p>}
      {rows.length > 0 && <ObjectTable caption="Stored events" columns={valueColumns(columnsOf(rows))} rows={rows} keyOf={(row, i) => `${valueText(row._offset)} ${i}`} />}
      {rows.length > 0 && (
        <div class="bar pager">
          <button type="button" disabled={numberOf(first?._offset) === 0} onClick={() => open({ before: numberOf(first?._offset) })}>
            Earlier events
          </button>
          <button type="button" onClick={() => open({ from: numberOf(last?._offset) + 1 })}>
            Later events
          </button>
          <span class="dim">
            Offsets {formatNumber(numberOf(first?._offset))} to {formatNumber(numberOf(last?._offset))}
          </span>
        </div>
      )}
      {place !== null && read.data !== null && rows.length === 0 && !('newest' in place) && (
        <div class="bar pager">
          <button type="button" disabled={'before' in place} onClick={() => open('from' in place ? { before: place.from } : { newest: true })}>
            Earlier events
          </button>
          <button type="button" onClick={() => open('before' in place ? { from: place.before } : place)}>
            Later events
          </button>
        </div>
      )}
    </Panel>
  );
}

function Quarantine({ name }: { name: string }): JSX.Element {
  const read = useWatch(quarantined(name, STORED_ROWS), Infinity);
  const rows = rowsOf(read.data ?? []);
  const columns: Array<Column<Row>> = [
    { title: 'Arrival', cell: (row) => timeText(row._time) },
    { title: 'Reason', wide: true, cell: (row) => shown(textOf(row.reason), 300) },
    { title: 'Event', wide: true, cell: (row) => <code>{shown(textOf(row.event), 300)}</code> },
  ];
  return (
    <Panel
      title="Quarantine"
      note="bad events, the newest first"
      actions={
        <button type="button" class="quiet" onClick={read.again}>
          Read again
        </button>
      }
    >
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && <p class="dim">No bad event has been stored.</p>}
      {rows.length > 0 && <ObjectTable caption="Bad events with their reasons" columns={columns} rows={rows} keyOf={(row, i) => `${valueText(row._offset)} ${i}`} />}
    </Panel>
  );
}

/** Whether a row of `SHOW PARTITIONS` is of a stream of the cluster, which has no pause and is not altered: only those count rejected messages. */
const ofCluster = (row: Row): boolean => typeof row.rejected === 'number' || typeof row.rejected === 'bigint';

function Partitions({ name, read, rows, open }: { name: string; read: Watched; rows: readonly Row[]; open(action: Action): void }): JSX.Element | null {
  if (rows.length === 0) return null;
  const number = (title: string, column: string): Column<Row> => ({ title, number: true, cell: (row) => valueText(row[column]) });
  const columns: Array<Column<Row>> = [
    { title: 'Partition', cell: (row) => valueText(row.partition) },
    { title: 'State', cell: (row) => shown(textOf(row.state)), marked: (row) => row.state === 'failing' || row.state === 'stopped' || row.state === 'unassigned' },
    number('Position', 'position'),
    number('End', 'end'),
    { ...number('Lag', 'lag'), marked: (row) => numberOf(row.lag) > 0 },
    number('Lost', 'lost'),
    number('Skipped', 'skipped'),
    number('Rejected', 'rejected'),
    { title: 'Error', wide: true, cell: (row) => shown(textOf(row.error), 300) },
  ];
  const isPaused = rows[0]?.state === 'paused';
  const ask = () =>
    open({
      title: isPaused ? 'Resume reading the topic' : 'Pause reading the topic',
      statement: alterStream(name, { is: isPaused ? 'resume' : 'pause' }),
      button: isPaused ? 'Resume' : 'Pause',
      done: read.again,
    });
  return (
    <Panel
      title="Partitions"
      note={`of the topic ${shown(textOf(rows[0]?.topic), 60)}`}
      actions={
        !readOnly &&
        !rows.some(ofCluster) && (
          <button type="button" onClick={ask}>
            {isPaused ? 'Resume reading…' : 'Pause reading…'}
          </button>
        )
      }
    >
      <Condition of={read} />
      <ObjectTable caption="Positions in the topic's partitions" columns={columns} rows={rows} keyOf={(row, i) => `${valueText(row.partition)} ${i}`} />
    </Panel>
  );
}

interface Sent {
  problem: Problem | null;
  accepted: number;
  rejected: number;
  faults: Array<{ line: number; column: number; path: string | null; message: string }>;
  text: string;
}

function readSent(data: Json): Sent {
  const facts = isObject(data) ? data : {};
  const faults = rowsOf(facts.errors ?? []).map((one) => ({
    line: numberOf(one.line),
    column: numberOf(one.column),
    path: typeof one.path === 'string' ? one.path : null,
    message: textOf(one.message),
  }));
  return { problem: null, accepted: numberOf(facts.accepted), rejected: numberOf(facts.rejected), faults, text: formatJson(data, 2) };
}

function SendEvent({ name }: { name: string }): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState('{"test": true}');
  const [sent, setSent] = useState<Sent | null>(null);
  const [busy, setBusy] = useState(false);
  const run = () => {
    if (busy || text.trim() === '') return;
    setBusy(true);
    send('POST', `v1/streams/${encodeURIComponent(name)}/events`, text)
      .then(
        (data) => {
          const read = readSent(data);
          setSent(read);
          announce(`${read.accepted} accepted, ${read.rejected} rejected`);
        },
        (error: unknown) => {
          const problem = problemOfError(error);
          setSent({ ...readSent(error instanceof Failure ? error.body : null), problem });
          announce(`Refused: ${problem.detail ?? problem.title}`);
        },
      )
      .finally(() => setBusy(false));
  };
  const goTo = (line: number, column: number) => {
    const at = offsetOf(text, line, column);
    area.current?.focus();
    area.current?.setSelectionRange(at, offsetAfter(text, 1, at));
  };
  return (
    <form
      class="send-event"
      onSubmit={(event) => {
        event.preventDefault();
        run();
      }}
    >
      <label class="field wide">
        <span>Events: one JSON object, an array, or one object a line</span>
        <textarea
          ref={area}
          rows={5}
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              run();
            }
          }}
        />
      </label>
      <div class="bar">
        <button type="submit" class="primary" disabled={busy || text.trim() === ''} title="Ctrl+Enter">
          {busy ? 'Sending…' : 'Send'}
        </button>
        <span class="dim">The events become part of the stream.</span>
      </div>
      {sent?.problem != null && (
        <>
          <ProblemBox problem={sent.problem} />
          {sent.problem.line !== undefined && (
            <button type="button" class="quiet" onClick={() => goTo(sent.problem?.line ?? 1, sent.problem?.column ?? 1)}>
              Line {sent.problem.line}, column {sent.problem.column ?? 1}
            </button>
          )}
        </>
      )}
      {sent !== null && (sent.problem === null || sent.rejected > 0) && (
        <>
          <p>
            {formatNumber(sent.accepted)} accepted, {formatNumber(sent.rejected)} rejected.
          </p>
          <ul class="faults">
            {sent.faults.map((one, i) => (
              <li key={i}>
                <button type="button" class="quiet" onClick={() => goTo(one.line, one.column)}>
                  Line {one.line}, column {one.column}
                </button>
                <span>
                  {one.path !== null && <code>{shown(one.path)} </code>}
                  {shown(one.message, 300)}
                </span>
              </li>
            ))}
          </ul>
          <details>
            <summary>The server's answer</summary>
            <pre class="value-text" tabIndex={0} role="region" aria-label="The server's answer">
              {visible(sent.text).replace(/\\n/g, '\n')}
            </pre>
          </details>
        </>
      )}
    </form>
  );
}

const NEW_COLUMN: ColumnDraft = { name: '', type: 'STRING', notNull: false, otherwise: '' };
const TYPE_OPTIONS = TYPES.map((type) => [type, type] as const);

function ColumnFields({ column, onChange, label }: { column: ColumnDraft; onChange(column: ColumnDraft): void; label: string }): JSX.Element {
  return (
    <fieldset class="bar column-fields">
      <legend class="unseen">{label}</legend>
      <Field label="Column" value={column.name} onInput={(name) => onChange({ ...column, name })} />
      <Choice label="Type" value={column.type} options={TYPE_OPTIONS} onChange={(type) => onChange({ ...column, type })} />
      <Field label="Default" value={column.otherwise} placeholder="none, such as 0 or 'x'" onInput={(otherwise) => onChange({ ...column, otherwise })} />
      <label class="check">
        <input type="checkbox" checked={column.notNull} onChange={(event) => onChange({ ...column, notNull: event.currentTarget.checked })} />
        <span>Not null</span>
      </label>
    </fieldset>
  );
}

function CreateForm({ done }: { done(name: string): void }): JSX.Element {
  const [name, setName] = useState('');
  const [columns, setColumns] = useState<ColumnDraft[]>([]);
  const [store, setStore] = useState(true);
  const [quarantine, setQuarantine] = useState(false);
  const [retention, setRetention] = useState('');
  return (
    <StatementForm statement={name === '' ? null : createStream({ name, columns, store, retention, quarantine })} button="Create the stream" done={() => done(name)}>
      <div class="bar filters">
        <Field label="Name" value={name} onInput={setName} />
        <Field label="Retention" value={retention} placeholder="30 days" onInput={setRetention} />
        <label class="check">
          <input type="checkbox" checked={store} onChange={(event) => setStore(event.currentTarget.checked)} />
          <span>Store the events</span>
        </label>
        <label class="check">
          <input type="checkbox" checked={quarantine} onChange={(event) => setQuarantine(event.currentTarget.checked)} />
          <span>Store bad events in quarantine</span>
        </label>
      </div>
      {columns.map((column, i) => (
        <ColumnFields key={i} column={column} label={`Column ${i + 1}`} onChange={(changed) => setColumns(columns.map((one, j) => (j === i ? changed : one)))} />
      ))}
      <div class="bar">
        <button type="button" onClick={() => setColumns([...columns, NEW_COLUMN])}>
          Add a column
        </button>
        {columns.length > 0 && (
          <button type="button" onClick={() => setColumns(columns.slice(0, -1))}>
            Remove the last column
          </button>
        )}
        <span class="dim">Without columns they are found in the events.</span>
      </div>
    </StatementForm>
  );
}

const OPTIONS = ['retention', 'ack', 'on_bad_event', 'columns_max', 'event_bytes_max', 'store'].map((name) => [name, name] as const);

/** A statement of SHOW CREATE STREAM with a list of columns behind the name. */
const DECLARES_COLUMNS = /^\s*CREATE\s+STREAM\s+(?:"(?:[^"]|"")*"|[^\s("]+)\s*\(/i;

function AlterForm({ name, first, done }: { name: string; first: Alteration['is']; done(): void }): JSX.Element {
  const [kind, setKind] = useState(first);
  const [column, setColumn] = useState(NEW_COLUMN);
  const [option, setOption] = useState('retention');
  const [value, setValue] = useState('');
  const alteration: Alteration | null =
    kind === 'add' ? (column.name.trim() === '' ? null : { is: 'add', column })
    : kind === 'type' ? (column.name.trim() === '' ? null : { is: 'type', column: column.name, type: column.type })
    : kind === 'reset' ? { is: 'reset', option }
    : value.trim() === '' ? null : { is: 'set', option, value };
  return (
    <StatementForm statement={alteration === null ? null : alterStream(name, alteration)} button="Alter the stream" done={done}>
      <div class="bar filters">
        <Choice
          label="Change"
          value={kind}
          options={[
            ['add', 'add a column'],
            ['type', 'widen the type of a column'],
            ['set', 'set an option'],
            ['reset', 'reset an option'],
          ]}
          onChange={(chosen) => setKind(chosen as Alteration['is'])}
        />
        {kind === 'type' && <Field label="Column" value={column.name} onInput={(text) => setColumn({ ...column, name: text })} />}
        {kind === 'type' && <Choice label="Type" value={column.type} options={TYPE_OPTIONS} onChange={(type) => setColumn({ ...column, type })} />}
        {(kind === 'set' || kind === 'reset') && <Choice label="Option" value={option} options={OPTIONS} onChange={setOption} />}
        {kind === 'set' && <Field label="Value" value={value} placeholder="30 days" onInput={setValue} />}
      </div>
      {kind === 'add' && <ColumnFields column={column} onChange={setColumn} label="New column" />}
    </StatementForm>
  );
}

function DropButton({ name, open }: { name: string; open(action: Action): void }): JSX.Element {
  return (
    <button
      type="button"
      onClick={() => {
        dependentsOf(name).then(
          (found) =>
            open({
              title: `Drop the stream ${shown(name, 60)}`,
              statement: dropStatement('STREAM', name),
              button: 'Drop the stream',
              danger: true,
              warning: <DependentsWarning found={found} what="The stream and all its events are deleted. This cannot be undone." />,
              done: () => go('streams'),
            }),
          (error: unknown) => toast(problemOfError(error).title),
        );
      }}
    >
      Drop…
    </button>
  );
}
