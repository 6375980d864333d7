/** The page that asks: open questions as tabs, the editor and the fields beside it, and the result below. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Fields } from './fields.tsx';
import { formatTime } from './format.ts';
import { Editor } from './query_editor.tsx';
import { Result } from './result.tsx';
import { SavedButton } from './saved_controls.tsx';
import { fieldsOpen, zone } from './settings.ts';
import { type Tab, active, activeId, changedSince, closeTab, history, persistent, loaded, openTab, running, tabs } from './tabs.ts';
import { visible, cut } from './text.ts';
import { Dialog, Icon } from './ui.tsx';

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
          <div class={fieldsOpen() ? 'question-top with-fields' : 'question-top'}>
            <Editor tab={tab} />
            <Fields tab={tab} />
          </div>
          <Result tab={tab} />
        </div>
      )}
    </main>
  );
}

function titleOf(tab: Tab): string {
  if (tab.saved.value !== null) return visible(cut(tab.saved.value.name, 28));
  const text = cut(tab.text.value.trimStart(), 400).replace(/\s+/g, ' ').trim();
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
            {changedSince(tab) && (
              <>
                <span aria-hidden="true">*</span>
                <span class="unseen">, changed since it was saved</span>
              </>
            )}
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
      <SavedButton />
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
