/** Jobs, alerts, sinks, joins and endpoints: what each has done, what fails, and what the reader can do about it. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { documentBase } from './client.ts';
import { type Kind, createAlert, createAlertOn, createEventSink, createJob, createSink, dropStatement, endpointName, sqlText } from './ddl.ts';
import { quoteName } from './examples.ts';
import { formatBytes, formatDuration, formatNumber, formatShort } from './format.ts';
import { formatJson } from './json.ts';
import { type Begin, LeftOut, takeBegin } from './keep_form.tsx';
import { type Row, problemOfError, readOnly, rowsOf, useWatch } from './objects.ts';
import { type Action, ActionDialog, Code, type Column, Condition, Empty, Field, Fold, ObjectLink, ObjectTable, PageHeading, Panel, ProblemBox, StatementForm, TextArea, numberOf, shown, textOf, timeText, valueText } from './parts.tsx';
import type { Problem } from './protocol.ts';
import { cut, isDots, visibleLines } from './text.ts';
import { Dialog } from './ui.tsx';

const LIST_MS = 3000;
const HISTORY_ROWS = 20;
const ANSWER_LENGTH = 20_000;

type Open = (action: Action) => void;

export function Jobs(): JSX.Element {
  const [action, setAction] = useState<Action | null>(null);
  return (
    <main id="main" class="page objects">
      <PageHeading title="Jobs & alerts" />
      <Alerts open={setAction} />
      <JobList open={setAction} />
      <Sinks open={setAction} />
      <Joins open={setAction} />
      <Endpoints open={setAction} />
      {action !== null && <ActionDialog action={action} onClose={() => setAction(null)} />}
    </main>
  );
}

const number = (title: string, column: string): Column<Row> => ({ title, number: true, cell: (row) => valueText(row[column]) });
const counted = (title: string, column: string): Column<Row> => ({ ...number(title, column), marked: (row) => numberOf(row[column]) > 0 });
const failing: Column<Row> = {
  title: 'State',
  wide: true,
  cell: (row) => (typeof row.failing === 'string' ? `failing: ${shown(row.failing, 300)}` : 'working'),
  marked: (row) => typeof row.failing === 'string',
};

/** Rows that fail come first. */
const failingFirst = (rows: readonly Row[]): Row[] => [...rows].sort((a, b) => Number(typeof b.failing === 'string') - Number(typeof a.failing === 'string'));

/** The buttons of an object: its statement, and drop. */
function Actions({ kind, name, create, open, done, loss }: { kind: string; name: string; create: string; open: Open; done(): void; loss: string }): JSX.Element {
  const [showing, setShowing] = useState(false);
  return (
    <span class="bar row-actions">
      <button type="button" aria-label={`Statement of ${shown(name)}`} onClick={() => setShowing(true)}>
        Statement
      </button>
      {!readOnly && (
        <button
          type="button"
          aria-label={`Drop ${shown(name)}`}
          onClick={() =>
            open({
              title: `Drop the ${kind.toLowerCase()} ${shown(name, 60)}`,
              statement: kind === 'ENDPOINT' ? `DROP ENDPOINT ${create.replace(/^SHOW CREATE ENDPOINT /, '')}` : dropStatement(kind as Kind, name),
              button: `Drop the ${kind.toLowerCase()}`,
              danger: true,
              warning: <p>{loss}</p>,
              done,
            })
          }
        >
          Drop…
        </button>
      )}
      {showing && <StatementDialog title={`Statement of ${shown(name, 60)}`} create={create} onClose={() => setShowing(false)} />}
    </span>
  );
}

function StatementDialog({ title, create, onClose }: { title: string; create: string; onClose(): void }): JSX.Element {
  const read = useWatch(create, Infinity);
  const text = textOf(rowsOf(read.data ?? [])[0]?.statement);
  return (
    <Dialog title={title} wide onClose={onClose}>
      <Condition of={read} />
      {text !== '' && <Code text={text} label="Statement" />}
    </Dialog>
  );
}

/** A form that fills a statement from a few texts. All of them are needed. `begin`: the text that the area begins with. */
function CreateForm({ fields, area, begin = null, make, button, done }: { fields: ReadonlyArray<readonly [label: string, placeholder: string]>; area?: string; begin?: Begin | null; make(values: readonly string[]): string; button: string; done(): void }): JSX.Element {
  const count = fields.length + (area === undefined ? 0 : 1);
  const [values, setValues] = useState<readonly string[]>(() => Array.from({ length: count }, (_, i) => (i === fields.length ? (begin?.query ?? '') : '')));
  const put = (index: number) => (value: string) => setValues(values.map((before, i) => (i === index ? value : before)));
  const whole = values.every((value) => value.trim() !== '');
  return (
    <StatementForm statement={whole ? make(values) : null} button={button} done={done}>
      <div class="bar filters">
        {fields.map(([label, placeholder], i) => (
          <Field key={label} label={label} placeholder={placeholder} value={values[i] ?? ''} onInput={put(i)} />
        ))}
      </div>
      {area !== undefined && <TextArea label={area} rows={4} value={values[fields.length] ?? ''} onInput={put(fields.length)} />}
      <LeftOut of={begin} />
    </StatementForm>
  );
}

function Alerts({ open }: { open: Open }): JSX.Element {
  const read = useWatch('SHOW ALERTS', LIST_MS);
  const [begin, setBegin] = useState(() => takeBegin('alert'));
  // Firing alerts first, then those that fail.
  const rows = failingFirst(rowsOf(read.data ?? [])).sort((a, b) => Number(numberOf(b.firing) > 0) - Number(numberOf(a.firing) > 0));
  const columns: Array<Column<Row>> = [
    { title: 'Alert', cell: (row) => shown(textOf(row.alert)) },
    { title: 'Actions', cell: (row) => <Actions kind="ALERT" name={textOf(row.alert)} create={`SHOW CREATE ALERT ${quoteName(textOf(row.alert))}`} open={open} done={read.again} loss="The alert ends. Messages that it wrote stay." /> },
    { title: 'Firing', cell: (row) => (numberOf(row.firing) > 0 ? `${formatNumber(numberOf(row.firing))} ${numberOf(row.firing) === 1 ? 'key' : 'keys'}` : 'no'), marked: (row) => numberOf(row.firing) > 0 },
    { title: 'On', wide: true, cell: (row) => (typeof row.view === 'string' ? <ObjectLink page="views" name={row.view} /> : <code>{shown(textOf(row.query).replace(/\s+/g, ' '), 120)}</code>) },
    { title: 'When', wide: true, cell: (row) => <code>{shown(textOf(row.condition), 120)}</code> },
    { title: 'Into', cell: (row) => shown(textOf(row.target), 60) },
    number('Messages', 'messages'),
    counted('Refused', 'refused'),
    counted('Dead letters', 'dead'),
    counted('Passed over', 'passed_over'),
    failing,
  ];
  return (
    <Panel title="Alerts" note="firing alerts first">
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && <Empty text="There is no alert. An alert reports the keys of a view that meet a condition:" example={'CREATE STREAM alerts WITH (store = true);\nCREATE ALERT popular ON pages WHEN n > 100 INTO alerts;'} />}
      {rows.length > 0 && <ObjectTable caption="Alerts" columns={columns} rows={rows} keyOf={(row) => textOf(row.alert)} />}
      <Fold title="Create an alert" begin={begin !== null}>
        {(close) =>
          begin === null ? (
            <CreateForm
              key="by names"
              fields={[['Name', ''], ['View', 'pages'], ['Condition', 'n > 100'], ['Into the stream or webhook', 'alerts']]}
              make={([name = '', view = '', condition = '', into = '']) => createAlert(name.trim(), view.trim(), condition, into)}
              button="Create the alert"
              done={() => (close(), read.again())}
            />
          ) : (
            <CreateForm
              fields={[['Name', ''], ['Condition', `${begin.measure || 'n'} > 100`], ['Into the stream or webhook', 'alerts']]}
              area="Query, in place of a view"
              begin={begin}
              make={([name = '', condition = '', into = '', query = '']) => createAlertOn(name.trim(), query, condition, into)}
              button="Create the alert"
              done={() => (close(), setBegin(null), read.again())}
            />
          )
        }
      </Fold>
    </Panel>
  );
}

function JobList({ open }: { open: Open }): JSX.Element {
  const read = useWatch('SHOW JOBS', LIST_MS);
  const [history, setHistory] = useState<string | null>(null);
  const rows = rowsOf(read.data ?? []);
  const change = (title: string, statement: string, button: string, running?: string) => open({ title, statement, button, done: read.again, ...(running === undefined ? {} : { running }) });
  const columns: Array<Column<Row>> = [
    { title: 'Job', cell: (row) => shown(textOf(row.job)) },
    {
      title: 'Actions',
      cell: (row) => {
        const name = textOf(row.job);
        const quoted = quoteName(name);
        return (
          <span class="bar row-actions">
            <button type="button" aria-label={`History of ${shown(name)}`} onClick={() => setHistory(name)}>
              History
            </button>
            {!readOnly && (
              <>
                <button type="button" aria-label={`Run now: ${shown(name)}`} onClick={() => change(`Run the job ${shown(name, 60)}`, `RUN JOB ${quoted}`, 'Run the job now', 'The run goes on while this page is open.')}>
                  Run now
                </button>
                {row.enabled === false ? (
                  <button type="button" aria-label={`Enable ${shown(name)}`} onClick={() => change(`Enable the job ${shown(name, 60)}`, `ALTER JOB ${quoted} ENABLE`, 'Enable the job')}>
                    Enable
                  </button>
                ) : (
                  <button type="button" aria-label={`Disable ${shown(name)}`} onClick={() => change(`Disable the job ${shown(name, 60)}`, `ALTER JOB ${quoted} DISABLE`, 'Disable the job')}>
                    Disable
                  </button>
                )}
              </>
            )}
            <Actions kind="JOB" name={name} create={`DESCRIBE JOB ${quoted}`} open={open} done={read.again} loss="The job and its history are deleted. Rows that it wrote stay." />
          </span>
        );
      },
    },
    { title: 'Schedule', cell: (row) => `${shown(textOf(row.schedule), 60)} ${shown(textOf(row.time_zone), 40)}` },
    { title: 'State', cell: (row) => (row.enabled === false ? 'disabled' : textOf(row.state) === '' ? 'never run' : shown(textOf(row.state))), marked: (row) => row.state === 'failed' },
    { title: 'Last run', cell: (row) => timeText(row.last_run) || 'none' },
    { title: 'Next run', cell: (row) => timeText(row.next_run) || 'none' },
    number('Runs', 'runs'),
    counted('Failures', 'failures'),
    number('Rows', 'rows'),
    { title: 'Time', number: true, cell: (row) => formatDuration(numberOf(row.seconds) * 1000) },
    { title: 'Error', wide: true, cell: (row) => shown(textOf(row.error), 300) },
  ];
  return (
    <Panel title="Jobs">
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && <Empty text="There is no job. A job runs statements on a schedule:" example={"CREATE JOB hourly SCHEDULE '0 * * * *'\n  AS INSERT INTO totals SELECT now(), count(*) FROM clicks;"} />}
      {rows.length > 0 && <ObjectTable caption="Jobs" columns={columns} rows={rows} keyOf={(row) => textOf(row.job)} />}
      {history !== null && <History job={history} onClose={() => setHistory(null)} />}
      <Fold title="Create a job">
        {(close) => (
          <CreateForm
            fields={[['Name', ''], ['Schedule', '0 * * * *']]}
            area="Statements"
            make={([name = '', schedule = '', statements = '']) => createJob(name.trim(), schedule, statements)}
            button="Create the job"
            done={() => (close(), read.again())}
          />
        )}
      </Fold>
    </Panel>
  );
}

function History({ job, onClose }: { job: string; onClose(): void }): JSX.Element {
  const read = useWatch(`SELECT * FROM system.job_runs WHERE job = ${sqlText(job)} ORDER BY run DESC LIMIT ${HISTORY_ROWS}`, LIST_MS);
  const rows = rowsOf(read.data ?? []);
  const columns: Array<Column<Row>> = [
    { title: 'Run', cell: (row) => valueText(row.run) },
    { title: 'State', cell: (row) => shown(textOf(row.state)), marked: (row) => row.state === 'failed' },
    { title: 'Scheduled', cell: (row) => timeText(row.scheduled_at) || 'by hand' },
    { title: 'Started', cell: (row) => timeText(row.started_at) },
    { title: 'Ended', cell: (row) => timeText(row.ended_at) },
    number('Attempts', 'attempts'),
    { title: 'Time', number: true, cell: (row) => formatDuration(numberOf(row.seconds) * 1000) },
    number('Rows', 'rows'),
    { title: 'Error', wide: true, cell: (row) => shown(textOf(row.error), 300) },
  ];
  return (
    <Dialog title={`Last runs of ${shown(job, 60)}`} wide onClose={onClose}>
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && <p class="dim">The job has not run yet.</p>}
      {rows.length > 0 && <ObjectTable caption={`Last runs of ${shown(job, 60)}`} columns={columns} rows={rows} keyOf={(_, i) => i} />}
    </Dialog>
  );
}

function Sinks({ open }: { open: Open }): JSX.Element {
  const read = useWatch('SHOW SINKS', LIST_MS);
  const [begin, setBegin] = useState(() => takeBegin('sink'));
  const rows = failingFirst(rowsOf(read.data ?? []));
  const behind = (row: Row): string => {
    if (typeof row.behind_ms === 'number') return formatDuration(row.behind_ms);
    if (typeof row.events_behind === 'number') return `${formatShort(row.events_behind)} events`;
    if (typeof row.changes_held === 'number') return `${formatShort(row.changes_held)} changes`;
    return '';
  };
  const lost = (row: Row): number => numberOf(row.changes_lost) + numberOf(row.events_lost);
  const columns: Array<Column<Row>> = [
    { title: 'Sink', cell: (row) => shown(textOf(row.sink)) },
    { title: 'Actions', cell: (row) => <Actions kind="SINK" name={textOf(row.sink)} create={`SHOW CREATE SINK ${quoteName(textOf(row.sink))}`} open={open} done={read.again} loss="Deliveries end. What the sink delivered stays at its target." /> },
    { title: 'From', cell: (row) => (typeof row.view === 'string' ? <ObjectLink page="views" name={row.view} /> : <ObjectLink page="streams" name={textOf(row.stream)} />) },
    { title: 'Into', wide: true, cell: (row) => shown(textOf(row.target), 100) },
    { title: 'Behind', number: true, cell: behind },
    number('Deliveries', 'deliveries'),
    number('Rows', 'rows'),
    counted('Tries', 'tries'),
    counted('Dead letters', 'dead_rows'),
    { title: 'Lost', number: true, cell: (row) => formatNumber(lost(row)), marked: (row) => lost(row) > 0 },
    failing,
  ];
  return (
    <Panel title="Sinks">
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && <Empty text="There is no sink. A sink delivers the closed windows or the changes of a view, or events:" example={"CREATE SINK out FROM CHANGES OF pages INTO WEBHOOK 'https://example.com/pages';"} />}
      {rows.length > 0 && <ObjectTable caption="Sinks" columns={columns} rows={rows} keyOf={(row) => textOf(row.sink)} />}
      <Fold title="Create a sink" begin={begin !== null}>
        {(close) =>
          begin === null ? (
            <CreateForm
              key="by names"
              fields={[['Name', ''], ['View with windows, or CHANGES OF view', 'CHANGES OF pages'], ['Into the stream or webhook', 'https://example.com/rows']]}
              make={([name = '', view = '', into = '']) => createSink(name.trim(), view.trim(), into)}
              button="Create the sink"
              done={() => (close(), read.again())}
            />
          ) : (
            <CreateForm
              fields={[['Name', ''], ['Into the stream or webhook', 'https://example.com/rows']]}
              area="Query, with a row for each event"
              begin={begin}
              make={([name = '', into = '', query = '']) => createEventSink(name.trim(), query, into)}
              button="Create the sink"
              done={() => (close(), setBegin(null), read.again())}
            />
          )
        }
      </Fold>
    </Panel>
  );
}

function Joins({ open }: { open: Open }): JSX.Element {
  const read = useWatch('SHOW JOINS', LIST_MS);
  const rows = failingFirst(rowsOf(read.data ?? []));
  const bytes = (title: string, column: string): Column<Row> => ({ title, number: true, cell: (row) => formatBytes(numberOf(row[column])) });
  const columns: Array<Column<Row>> = [
    { title: 'Join', cell: (row) => shown(textOf(row.join)) },
    { title: 'Actions', cell: (row) => <Actions kind="JOIN" name={textOf(row.join)} create={`SHOW CREATE JOIN ${quoteName(textOf(row.join))}`} open={open} done={read.again} loss="The join ends, and events that wait for a partner are deleted. Pairs stay in their stream." /> },
    {
      title: 'Streams',
      cell: (row) => (
        <>
          <ObjectLink page="streams" name={textOf(row.left)} /> and <ObjectLink page="streams" name={textOf(row.right)} />
        </>
      ),
    },
    { title: 'Into', cell: (row) => <ObjectLink page="streams" name={textOf(row.stream)} /> },
    number('Pairs', 'pairs'),
    number('Waiting for the watermark', 'waiting'),
    number('Buffered events', 'kept_events'),
    bytes('On disk', 'kept_bytes'),
    bytes('Memory', 'held_bytes'),
    bytes('Behind', 'behind_bytes'),
    counted('Late', 'late'),
    counted('Ahead', 'ahead'),
    counted('Without time', 'untimed'),
    counted('Refused', 'refused'),
    failing,
  ];
  return (
    <Panel title="Joins">
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && <Empty text="There is no join. A join pairs the events of two streams into a third:" example={"CREATE JOIN pairs INTO paired AS\n  SELECT a.id, b.value FROM STREAM(first) AS a JOIN STREAM(second) AS b ON a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL '1 minute';"} />}
      {rows.length > 0 && <ObjectTable caption="Joins" columns={columns} rows={rows} keyOf={(row) => textOf(row.join)} />}
    </Panel>
  );
}

function Endpoints({ open }: { open: Open }): JSX.Element {
  const read = useWatch('SHOW ENDPOINTS', LIST_MS);
  const [trying, setTrying] = useState<Row | null>(null);
  const rows = failingFirst(rowsOf(read.data ?? []));
  const columns: Array<Column<Row>> = [
    { title: 'Endpoint', cell: (row) => <code>{`${shown(textOf(row.method), 10)} ${shown(textOf(row.path), 120)}`}</code> },
    {
      title: 'Actions',
      cell: (row) => {
        const name = `${textOf(row.method)} ${textOf(row.path)}`;
        return (
          <span class="bar row-actions">
            {(row.method === 'GET' || !readOnly) && (
              <button type="button" aria-label={`Try it: ${shown(name)}`} onClick={() => setTrying(row)}>
                Try it
              </button>
            )}
            <Actions kind="ENDPOINT" name={name} create={`SHOW CREATE ENDPOINT ${endpointName(textOf(row.method), textOf(row.path))}`} open={open} done={read.again} loss="Requests to this path get 404 from then on." />
          </span>
        );
      },
    },
    {
      title: 'Of',
      cell: (row) =>
        typeof row.view === 'string' ? <ObjectLink page="views" name={row.view} /> : typeof row.stream === 'string' ? <ObjectLink page="streams" name={row.stream} /> : '',
    },
    { title: 'Created', cell: (row) => timeText(row.created) },
    number('Requests', 'requests'),
    failing,
  ];
  return (
    <Panel title="Endpoints">
      <Condition of={read} />
      {read.data !== null && rows.length === 0 && <Empty text="There is no endpoint. An endpoint is an HTTP route that writes events or returns rows of a view:" example={"CREATE ENDPOINT GET '/pages/{page}' AS\n  SELECT n FROM pages WHERE page = $page ELSE 404 'no such page';"} />}
      {rows.length > 0 && <ObjectTable caption="Endpoints" columns={columns} rows={rows} keyOf={(row) => `${textOf(row.method)} ${textOf(row.path)}`} />}
      {trying !== null && <TryDialog method={textOf(trying.method)} path={textOf(trying.path)} onClose={() => setTrying(null)} />}
    </Panel>
  );
}

interface Answer {
  status: number;
  text: string;
  ms: number;
}

function TryDialog({ method, path, onClose }: { method: string; path: string; onClose(): void }): JSX.Element {
  const described = useWatch(`DESCRIBE ENDPOINT ${endpointName(method, path)}`, Infinity);
  const parameters = rowsOf(described.data ?? []);
  const [values, setValues] = useState<ReadonlyMap<string, string>>(new Map());
  const [body, setBody] = useState<string | null>(null);
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const named = parameters.filter((one) => one.place !== 'body');
  const ofBody = parameters.filter((one) => one.place === 'body').map((one) => [textOf(one.parameter), ''] as const);
  const text = body ?? formatJson(Object.fromEntries(ofBody), 2);
  const filled = path.replace(/\{([^}]*)\}/g, (_, name: string) => encodeURIComponent(values.get(name) ?? ''));
  const query = new URLSearchParams();
  for (const one of named) {
    const value = values.get(textOf(one.parameter)) ?? '';
    if (one.place === 'query' && value !== '') query.set(textOf(one.parameter), value);
  }
  const asked = query.toString();
  const address = `${filled.replace(/^\/+/, '')}${asked === '' ? '' : `?${asked}`}`;
  const run = async () => {
    const began = performance.now();
    setProblem(null);
    if (filled.split('/').some(isDots)) {
      setProblem({ title: 'A value in the path cannot be . or .. alone: a browser takes it out of the path.', status: 0 });
      return;
    }
    try {
      const request: RequestInit = method === 'POST' ? { method, body: text, headers: { 'content-type': 'application/json' } } : {};
      const found = await fetch(new URL(`./${address}`, documentBase), request);
      setAnswer({ status: found.status, text: await found.text(), ms: performance.now() - began });
    } catch (error) {
      setProblem({ ...problemOfError(error), title: 'The server does not answer.' });
    }
  };
  return (
    <Dialog title={`Try ${method} ${shown(path, 80)}`} wide onClose={onClose}>
      <Condition of={described} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <div class="bar filters">
          {named.map((one) => {
            const name = textOf(one.parameter);
            return <Field key={name} label={`${shown(name, 40)}: ${shown(textOf(one.type), 30)}`} value={values.get(name) ?? ''} onInput={(value) => setValues(new Map(values).set(name, value))} />;
          })}
        </div>
        {method === 'POST' && (
          <label class="field wide">
            <span>Body</span>
            <textarea rows={6} spellcheck={false} value={text} onInput={(event) => setBody(event.currentTarget.value)} />
          </label>
        )}
        <p class="dim">
          <code>
            {method} {shown(address, 200)}
          </code>
        </p>
        <button type="submit" class="primary">
          {method === 'POST' ? 'Send: this writes an event' : 'Send'}
        </button>
      </form>
      {problem !== null && <ProblemBox problem={problem} />}
      {answer !== null && (
        <>
          <p role="status">
            Status {answer.status}, {formatDuration(answer.ms)}
          </p>
          <pre class="value-text" tabIndex={0} role="region" aria-label="Answer">
            {visibleLines(cut(answer.text, ANSWER_LENGTH))}
          </pre>
        </>
      )}
    </Dialog>
  );
}
