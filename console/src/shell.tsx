/** What is around every page: header, connection, theme, zone, palette, list of keys, licences. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Ask } from './ask.tsx';
import { connection, getText, streams } from './client.ts';
import { lastDashboards, readLastDashboards } from './dashboard_list.ts';
import { formatClock, zoneName } from './format.ts';
import { isZone } from './fragment.ts';
import { Home, ask, examples } from './home.tsx';
import { quoteName } from './examples.ts';
import type { Page } from './fragment.ts';
import { type LazyPage, TITLES, askFeatures, features, hasSaved, isOffered, loadPages, loading, titleOf } from './page_table.ts';
import { addressOf, go, object, page } from './route.ts';
import { openByName, openList, recentSaved } from './saved_controls.tsx';
import { type Theme, browserZone, chosenZone, letterKeys, readOnly, theme, zone } from './settings.ts';
import { isTyping } from './table.tsx';
import { history, openTab } from './tabs.ts';
import { cut, visible } from './text.ts';
import { Announcer, Dialog, Icon, Menu, Toast, announce, overlay } from './ui.tsx';

const open = signal<'keys' | 'palette' | 'licences' | 'zone' | null>(null);
const close = () => {
  open.value = null;
};

export function Shell({ build, assets }: { build: string; assets: string }): JSX.Element {
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        open.value = open.value === 'palette' ? null : 'palette';
      } else if (event.key === '?' && letterKeys.value && !isTyping(event.target)) {
        event.preventDefault();
        open.value = 'keys';
      }
    };
    document.addEventListener('keydown', keys);
    return () => document.removeEventListener('keydown', keys);
  }, []);
  useEffect(() => {
    const named = object.value === null ? '' : `${visible(cut(object.value, 60))} · `;
    document.title = page.value === 'home' ? 'Swiftwater' : `${named}${titleOf(page.value)} · Swiftwater`;
  }, [page.value, object.value]);
  useEffect(() => {
    if (connection.value?.phase === 'unavailable' && features.value === null) void askFeatures();
  }, [connection.value?.phase]);
  const theirs = connection.value?.hello?.build ?? null;
  const other = theirs !== null && build !== '' && !build.includes('{') && theirs !== build;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header class="header">
        <a class="brand" href="#/" onClick={(event) => (event.preventDefault(), go('home'))}>
          <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
            <rect width="32" height="32" rx="7" fill="#0b5cad" />
            <path d="M5 12c4-5 7-5 11 0s7 5 11 0M5 21c4-5 7-5 11 0s7 5 11 0" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" />
          </svg>
          Swiftwater
        </a>
        <nav aria-label="Pages">
          {TITLES.filter((entry) => isOffered(entry.page) === true).map((entry) => (
            <PageLink key={entry.page} to={entry.page} name={entry.title} />
          ))}
        </nav>
        <span class="spring" />
        <ConnectionState />
        <button type="button" class="quiet palette-button" aria-label="Find pages, streams and questions" title="Ctrl+K" onClick={() => (open.value = 'palette')}>
          <Icon name="search" />
        </button>
        <Menu label="View" quiet>
          {(shut) => <ViewMenu shut={shut} />}
        </Menu>
        <button type="button" class="quiet" aria-label="Keys" title="Keys (?)" onClick={() => (open.value = 'keys')}>
          ?
        </button>
      </header>
      {other && (
        <p class="notice banner">
          The server has another version of this page.
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )}
      {connection.value?.phase === 'unavailable' && (
        <p class="notice banner">No WebSocket reaches the server. Results come by plain HTTP: at most four at once, and they end with the connection.</p>
      )}
      {page.value === 'home' ? <Home /> : page.value === 'ask' ? <Ask /> : <Later page={page.value} key={page.value} />}
      <Toast />
      <Announcer />
      {overlay.value}
      {open.value === 'keys' && <KeysDialog />}
      {open.value === 'palette' && <Palette />}
      {open.value === 'licences' && <LicencesDialog assets={assets} />}
      {open.value === 'zone' && <ZoneDialog />}
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  const target = document.querySelector<HTMLElement>('#main button, #main textarea, #main [role="textbox"], #main [tabindex="0"]');
  target?.focus();
}

/** A page of `pages.js`, or what is shown until it can be. */
function Later({ page: name }: { page: LazyPage }): JSX.Element {
  const offered = isOffered(name);
  const state = loading.value;
  useEffect(() => {
    if (offered === true) void loadPages();
  }, [offered]);
  if (offered === true && state !== null && typeof state === 'object') {
    const Shown = state.pages[name];
    return <Shown />;
  }
  return (
    <main id="main" class="page">
      <h1>{titleOf(name)}</h1>
      {offered === false ? (
        <p class="panel waiting">This server does not have this page. It needs a data directory, or a build with this feature.</p>
      ) : state === 'failed' ? (
        <p class="panel waiting" role="alert">
          This page cannot be loaded now.{' '}
          <button type="button" onClick={() => void loadPages()}>
            Try again
          </button>
        </p>
      ) : (
        <p class="panel waiting">Loading…</p>
      )}
    </main>
  );
}

function PageLink({ to, name }: { to: Page; name: string }): JSX.Element {
  return (
    <a href={addressOf(to)} aria-current={page.value === to ? 'page' : undefined} onClick={(event) => (event.preventDefault(), go(to))}>
      {name}
    </a>
  );
}

function ConnectionState(): JSX.Element {
  const state = connection.value;
  const phase = state?.phase ?? 'connecting';
  const since = state === null ? '' : formatClock(state.since, zone());
  const texts = {
    connecting: ['calm', 'Connecting', ''],
    live: ['good', 'Live', ''],
    reconnecting: ['warn', 'Reconnecting', ` · stale since ${since}`],
    unavailable: ['warn', 'Plain HTTP', ''],
  } as const;
  const [kind, text, detail] = texts[phase];
  const previous = useRef(phase);
  useEffect(() => {
    if (previous.current !== phase) announce(`Connection: ${text}`);
    previous.current = phase;
  }, [phase]);
  const version = state?.hello?.version;
  return (
    <span class={`phase ${kind}`} title={version === undefined ? text : `${text}, server version ${version}`}>
      <i aria-hidden="true" />
      {text}
      {detail !== '' && <span class="phase-detail">{detail}</span>}
    </span>
  );
}

function ViewMenu({ shut }: { shut(): void }): JSX.Element {
  const themes: Array<[Theme, string]> = [
    ['system', 'As the system'],
    ['light', 'Light'],
    ['dark', 'Dark'],
  ];
  const zones: Array<[string | null, string]> = [
    [null, `Browser's: ${browserZone}`],
    ['UTC', 'UTC'],
  ];
  const other = chosenZone.value !== null && chosenZone.value !== 'UTC' ? chosenZone.value : null;
  return (
    <>
      <fieldset>
        <legend>Theme</legend>
        {themes.map(([value, name]) => (
          <label key={value} class="check">
            <input type="radio" name="theme" checked={theme.value === value} onChange={() => (theme.value = value)} />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>Time zone</legend>
        {zones.map(([value, name]) => (
          <label key={name} class="check">
            <input type="radio" name="zone" checked={chosenZone.value === value} onChange={() => (chosenZone.value = value)} />
            <span>{name}</span>
          </label>
        ))}
        {other !== null && (
          <label class="check">
            <input type="radio" name="zone" checked onChange={() => {}} />
            <span>{other}</span>
          </label>
        )}
        <button type="button" onClick={() => (shut(), (open.value = 'zone'))}>
          Another zone…
        </button>
      </fieldset>
      <label class="check">
        <input type="checkbox" checked={letterKeys.value} onChange={(event) => (letterKeys.value = event.currentTarget.checked)} />
        <span>Single-letter keys</span>
      </label>
      <button type="button" onClick={() => (shut(), (open.value = 'licences'))}>
        Licences
      </button>
    </>
  );
}

function ZoneDialog(): JSX.Element {
  const [find, setFind] = useState('');
  const zones = useMemo(() => Intl.supportedValuesOf('timeZone'), []);
  const found = zones.filter((name) => name.toLowerCase().replace(/_/g, ' ').includes(find.toLowerCase().trim()));
  const choose = (name: string) => {
    if (!isZone(name)) return;
    chosenZone.value = name;
    close();
  };
  return (
    <Dialog title="Time zone" onClose={close}>
      <label class="find">
        <Icon name="search" />
        <span class="unseen">Find a time zone</span>
        <input type="search" placeholder="Europe/Berlin" value={find} onInput={(event) => setFind(event.currentTarget.value)} />
      </label>
      <ul class="choices">
        {found.slice(0, 60).map((name) => (
          <li key={name}>
            <button type="button" onClick={() => choose(name)}>
              <span>{name}</span>
              <span class="dim">{zoneName(Date.now(), name)}</span>
            </button>
          </li>
        ))}
      </ul>
      {found.length > 60 && <p class="dim">{found.length - 60} more: type a part of the name.</p>}
      {found.length === 0 && <p class="dim">No zone has this name.</p>}
    </Dialog>
  );
}

function KeysDialog(): JSX.Element {
  const keys: Array<[string, string]> = [
    ['Ctrl+Enter', 'run the question'],
    ['Ctrl+Space', 'in the editor: open the list of completions. Enter or Tab takes one, Esc closes it'],
    ...(hasSaved() && !readOnly ? [['Ctrl+S', 'save the question'] as [string, string]] : []),
    ['F8', 'in the editor: go to the next fault'],
    ['Ctrl+K', 'find pages, streams, dashboards, questions'],
    ['Space', 'pause and resume a result'],
    ['/', 'find in the rows'],
    ['?', 'this list'],
    ['← →', 'on a chart: move the cursor. On the window slider: step through windows. On tabs: change the question'],
    ['↑ ↓ ← →', 'on a table: move the marked value; Home, End and Page keys too'],
    ['Enter', 'on a table: show the whole value'],
    ['↑ ↓ ← →', 'on a panel, while a dashboard is edited: move it. With Shift: change its size'],
    ['Ctrl+C', 'on a table: copy the marked value'],
    ['Delete', 'on a tab: close the question'],
    ['Esc', 'close a dialog or menu'],
  ];
  return (
    <Dialog title="Keys" onClose={close}>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={what}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={letterKeys.value} onChange={(event) => (letterKeys.value = event.currentTarget.checked)} />
        <span>Single-letter keys (Space, /, ?) work</span>
      </label>
    </Dialog>
  );
}

function LicencesDialog({ assets }: { assets: string }): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    getText(`${assets}/licences.txt`)
      .then(setText)
      .catch(() => setText('The licences cannot be read now.'));
  }, []);
  return (
    <Dialog title="Licences" wide onClose={close}>
      <p>This page contains work of others under these licences.</p>
      <pre class="value-text" tabIndex={0} role="region" aria-label="Licences">
        {text ?? 'Reading…'}
      </pre>
    </Dialog>
  );
}

interface Choice {
  kind: string;
  name: string;
  detail: string;
  run(): void;
}

function choices(): Choice[] {
  const all: Choice[] = [
    ...TITLES.filter((entry) => isOffered(entry.page) === true).map((entry) => ({ kind: 'page', name: entry.title, detail: '', run: () => go(entry.page) })),
    {
      kind: 'action',
      name: 'New question',
      detail: '',
      run: () => {
        openTab('');
        go('ask');
      },
    },
    { kind: 'action', name: 'Keys', detail: '', run: () => (open.value = 'keys') },
    { kind: 'action', name: 'Time zone', detail: '', run: () => (open.value = 'zone') },
    { kind: 'action', name: 'Licences', detail: '', run: () => (open.value = 'licences') },
  ];
  for (const stream of streams.value?.streams ?? []) {
    const text = `SELECT *\nFROM STREAM(${quoteName(stream.name)}, MAX, TIME)`;
    all.push({ kind: 'stream', name: stream.name, detail: 'events as they come', run: () => ask({ text }) });
    all.push({ kind: 'stream', name: stream.name, detail: 'its page', run: () => go('streams', stream.name) });
  }
  if (hasSaved()) all.push({ kind: 'action', name: 'Saved queries', detail: '', run: openList });
  for (const saved of hasSaved() ? recentSaved.value : []) all.push({ kind: 'saved', name: saved.name, detail: saved.comment ?? '', run: () => openByName(saved.name) });
  for (const { name, title } of lastDashboards.value ?? []) all.push({ kind: 'dashboard', name, detail: title, run: () => go('dashboards', name) });
  for (const example of examples.value) all.push({ kind: 'example', name: example.title, detail: example.text, run: () => ask(example) });
  for (const past of history.value) {
    const show = () => {
      openTab(past.text, past.dialect, past.parameters);
      go('ask');
    };
    all.push({ kind: 'history', name: past.text.replace(/\s+/g, ' '), detail: '', run: show });
  }
  return all;
}

function Palette(): JSX.Element {
  const [find, setFind] = useState('');
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const all = useMemo(choices, [streams.value, examples.value, history.value, features.value, recentSaved.value, lastDashboards.value]);
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((choice) => words.every((word) => `${choice.kind} ${choice.name} ${choice.detail}`.toLowerCase().includes(word))).slice(0, 50);
  const marked = Math.min(at, Math.max(0, found.length - 1));
  const choose = (choice: Choice | undefined) => {
    if (choice === undefined) return;
    close();
    choice.run();
  };
  useEffect(() => void readLastDashboards(), []);
  useEffect(() => {
    list.current?.children[marked]?.scrollIntoView({ block: 'nearest' });
  }, [marked]);
  return (
    <Dialog title="Find" wide onClose={close}>
      <label class="find">
        <Icon name="search" />
        <span class="unseen">Find pages, streams and questions</span>
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="found"
          aria-activedescendant={found.length > 0 ? `found-${marked}` : undefined}
          autocomplete="off"
          placeholder="Pages, streams, questions"
          value={find}
          onInput={(event) => {
            setFind(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown') setAt(Math.min(found.length - 1, marked + 1));
            else if (event.key === 'ArrowUp') setAt(Math.max(0, marked - 1));
            else if (event.key === 'Enter') choose(found[marked]);
            else return;
            event.preventDefault();
          }}
        />
      </label>
      <ul class="choices" role="listbox" id="found" aria-label="Found" ref={list}>
        {found.map((choice, i) => (
          <li key={`${choice.kind}${choice.name}${choice.detail}`} role="option" id={`found-${i}`} aria-selected={i === marked} onClick={() => choose(choice)}>
            <span class="kind">{choice.kind}</span>
            <span>{visible(cut(choice.name, 120))}</span>
            <span class="dim">{visible(cut(choice.detail.replace(/\s+/g, ' '), 90))}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="dim">Nothing has this name.</p>}
    </Dialog>
  );
}

