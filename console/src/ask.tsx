/** The page that asks: open questions as tabs, the editor with its faults, parameters, and the result below. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { documentBase } from './client.ts';
import { formatTime } from './format.ts';
import { type Json, formatJson, parseJson } from './json.ts';
import { problemOf } from './ndjson.ts';
import { PARAMETERS_MAX, parameterCount } from './parameters.ts';
import { type Problem, isObject } from './protocol.ts';
import { Result } from './result.tsx';
import { zone } from './settings.ts';
import { type Tab, active, activeId, closeTab, history, persistent, loaded, openTab, pause, questionOf, run, running, stop, tabs } from './tabs.ts';
import { visible, cut } from './text.ts';
import { Dialog, Icon, announce } from './ui.tsx';

const VALIDATE_MS = 250;

type Fault = { problem: Problem } | { warnings: string[] } | null;

const faults = signal(new Map<number, Fault>());

export function Ask(): JSX.Element {
  const tab = active.value;
  useEffect(() => {
    if (loaded.value && tabs.value.length === 0) openTab('');
  }, [loaded.value]);
  return (
    <main id="main" class="page ask">
      <h1 class="unseen">Ask</h1>
      <TabBar />
      {!persistent.value && <p class="notice">This browser does not save anything for this page: questions and answers are lost with a reload.</p>}
      {tab !== null && (
        <div role="tabpanel" id="question" aria-labelledby={`tab-${tab.id}`} key={tab.id}>
          <Editor tab={tab} />
          <Result tab={tab} />
        </div>
      )}
    </main>
  );
}

function titleOf(tab: Tab): string {
  const text = tab.text.value.replace(/\s+/g, ' ').trim();
  return text === '' ? 'New question' : visible(cut(text.replace(/^select\s+/i, ''), 28));
}

function TabBar(): JSX.Element {
  const [historyOpen, setHistoryOpen] = useState(false);
  const shown = active.value;
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent, index: number) => {
    const steps: { [key: string]: number } = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: tabs.value.length - 1 };
    const next = steps[event.key];
    if (event.key === 'Delete') {
      closeTab(tabs.value[index] as Tab);
      return;
    }
    const tab = next === undefined ? undefined : tabs.value[(next + tabs.value.length) % tabs.value.length];
    if (tab === undefined) return;
    event.preventDefault();
    activeId.value = tab.id;
    list.current?.querySelector<HTMLElement>(`#tab-${tab.id}`)?.focus();
  };
  return (
    <div class="bar tabs-bar">
      <div class="tabs" role="tablist" aria-label="Questions" ref={list}>
        {tabs.value.map((tab, index) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`tab-${tab.id}`}
            aria-selected={tab === shown}
            aria-controls={tab === shown ? 'question' : undefined}
            tabIndex={tab === shown ? 0 : -1}
            onClick={() => (activeId.value = tab.id)}
            onKeyDown={(event) => move(event, index)}
          >
            {running(tab) && <i class="dot" aria-hidden="true" />}
            {titleOf(tab)}
            {running(tab) && <span class="unseen">, running</span>}
          </button>
        ))}
      </div>
      <button type="button" class="quiet" aria-label="New question" title="New question" onClick={() => openTab('')}>
        <Icon name="add" />
      </button>
      {shown !== null && (
        <button type="button" class="quiet" aria-label="Close this question" title="Close this question" onClick={() => closeTab(shown)}>
          <Icon name="close" />
        </button>
      )}
      <span class="spring" />
      <button type="button" class="quiet" onClick={() => setHistoryOpen(true)}>
        History
      </button>
      {historyOpen && <HistoryDialog onClose={() => setHistoryOpen(false)} />}
    </div>
  );
}

function HistoryDialog({ onClose }: { onClose(): void }): JSX.Element {
  const [find, setFind] = useState('');
  const found = history.value.filter((past) => past.text.toLowerCase().includes(find.toLowerCase()));
  return (
    <Dialog title="History" wide onClose={onClose}>
      <label class="find">
        <Icon name="search" />
        <span class="unseen">Find in history</span>
        <input type="search" placeholder="Find in history" value={find} onInput={(event) => setFind(event.currentTarget.value)} />
      </label>
      {found.length === 0 ? (
        <p class="dim">{history.value.length === 0 ? 'Questions that have run are listed here.' : 'No question has this text.'}</p>
      ) : (
        <ul class="history">
          {found.slice(0, 100).map((past) => (
            <li key={past.text}>
              <button
                type="button"
                onClick={() => {
                  openTab(past.text, past.dialect, past.parameters);
                  onClose();
                }}
              >
                <code>{visible(cut(past.text.replace(/\s+/g, ' '), 200))}</code>
                <span class="dim">{formatTime(past.at, zone(), false)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}

function Editor({ tab }: { tab: Tab }): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const text = tab.text.value;
  const fault = faults.value.get(tab.id) ?? null;
  const problem = fault !== null && 'problem' in fault ? fault.problem : null;
  const isRunning = running(tab);
  const asked = tab.asked.value;
  const paused = tab.view.value.at !== null;
  useValidation(tab);
  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) return;
    element.style.height = 'auto';
    element.style.height = `${Math.min(420, Math.max(96, element.scrollHeight + 2))}px`;
  }, [text]);
  const goTo = (line: number, column: number) => {
    const lines = text.split('\n');
    const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const at = Math.min(text.length, before + column - 1);
    area.current?.focus();
    area.current?.setSelectionRange(at, Math.min(text.length, at + 1));
  };
  const count = parameterCount(text);
  return (
    <section class="panel editor" aria-label="Question">
      {tab.origin.value !== 'reader' && (
        <p class="notice">
          This question came with a link{tab.origin.value === 'other site' ? ' on another site' : ''}. Nothing has run. Read it, then run it.
        </p>
      )}
      <label class="unseen" for="text">
        Query
      </label>
      <textarea
        id="text"
        ref={area}
        value={text}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        rows={4}
        placeholder="SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY carrier WINDOWING TUMBLING(1000, TIME)"
        aria-invalid={problem !== null}
        aria-describedby="fault"
        onInput={(event) => {
          tab.text.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            run(tab);
          }
        }}
      />
      <div id="fault" class={problem === null ? 'fault' : 'fault bad'}>
        {problem !== null && (
          <>
            <Icon name="warn" />
            <span>
              {visible(problem.detail ?? problem.title)}
              {problem.hint !== undefined && <span class="dim"> {visible(problem.hint)}</span>}
            </span>
            {problem.line !== undefined && (
              <button type="button" class="quiet" onClick={() => goTo(problem.line ?? 1, problem.column ?? 1)}>
                Line {problem.line}, column {problem.column ?? 1}
              </button>
            )}
          </>
        )}
        {fault !== null && 'warnings' in fault && (
          <>
            <Icon name={fault.warnings.length > 0 ? 'warn' : 'check'} />
            <span>{fault.warnings.length > 0 ? visible(fault.warnings.join(' · ')) : 'Valid.'}</span>
          </>
        )}
      </div>
      {count > 0 && (
        <fieldset class="parameters">
          <legend>Parameters</legend>
          {Array.from({ length: Math.min(count, PARAMETERS_MAX) }, (_, i) => (
            <label key={i}>
              <span>${i + 1}</span>
              <input
                type="text"
                value={tab.parameters.value[i] ?? ''}
                title="A number, true, false or null; anything else is text"
                onInput={(event) => {
                  const values = Array.from({ length: count }, (_, j) => tab.parameters.value[j] ?? '');
                  values[i] = event.currentTarget.value;
                  tab.parameters.value = values;
                }}
              />
            </label>
          ))}
        </fieldset>
      )}
      <div class="bar actions">
        <button type="button" class="primary" disabled={text.trim() === ''} onClick={() => run(tab)} title="Ctrl+Enter">
          <Icon name={asked === null ? 'run' : 'again'} />
          {asked === null ? 'Run' : 'Run again'}
        </button>
        <button type="button" disabled={!isRunning} onClick={() => stop(tab)}>
          <Icon name="stop" />
          Stop
        </button>
        <button type="button" disabled={tab.picture.value === null || (!isRunning && !paused)} aria-pressed={paused} onClick={() => pause(tab)} title="Space">
          <Icon name={paused ? 'run' : 'pause'} />
          {paused ? 'Resume' : 'Pause'}
        </button>
        <span class="spring" />
        {asked !== null && asked.text !== text && <span class="dim">The result is of an earlier text.</span>}
        <label class="select">
          <span>Dialect</span>
          <select
            value={tab.dialect.value}
            onChange={(event) => {
              tab.dialect.value = event.currentTarget.value === 'bullet' ? 'bullet' : 'native';
            }}
          >
            <option value="native">BQL</option>
            <option value="bullet">Bullet's rules</option>
          </select>
        </label>
      </div>
    </section>
  );
}

/** Validates 250 ms after the last key; an answer that is overtaken by another key is left. */
function useValidation(tab: Tab): void {
  const { text, dialect, parameters } = questionOf(tab);
  const key = JSON.stringify([text, dialect, tab.parameters.value]);
  useEffect(() => {
    const abort = new AbortController();
    const put = (fault: Fault) => {
      faults.value = new Map(faults.value).set(tab.id, fault);
    };
    if (text.trim() === '') {
      put(null);
      return;
    }
    const timer = setTimeout(async () => {
      try {
        const body: Json = { query: text, parameters, dialect };
        const answer = await fetch(new URL('v1/queries/validate', documentBase), {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: formatJson(body),
          signal: abort.signal,
        });
        if (!answer.ok) {
          const problem = await problemOf(answer);
          put({ problem });
          announce(`Fault: ${problem.detail ?? problem.title}`);
          return;
        }
        const facts = parseJson(await answer.text());
        const warnings = isObject(facts) && Array.isArray(facts.warnings) ? facts.warnings : [];
        put({ warnings: warnings.filter((warning) => typeof warning === 'string') });
      } catch {
        if (!abort.signal.aborted) put(null);
      }
    }, VALIDATE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
}
