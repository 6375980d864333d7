/**
 * The open questions: their texts, what runs of them, and what is saved.
 *
 * A tab is saved 300 ms after the last change, its last answer every 5 s and at its end. A closed tab stays in the history if it ran.
 * `run` is called by the reader's click or key alone; a tab made from a link only waits for it.
 */
import { type Signal, computed, effect, signal } from '@preact/signals';
import { paintWith, request, post } from './client.ts';
import type { Dialect, Form } from './fragment.ts';
import { parameterCount, readParameter } from './parameters.ts';
import { type Picture, VIEW, type View } from './picture.ts';
import type { Question } from './protocol.ts';
import { page } from './route.ts';
import { ANSWER_LENGTH_MAX, DRAFTS_MAX, type Past, type SavedRef, type Store, openStore, readRef } from './store.ts';

const SAVE_MS = 300;
const SAVE_ANSWER_MS = 5000;

/** A result on screen, of a question or of a panel, and what the reader looks at of it. */
export interface Pane {
  id: number;
  view: Signal<View>;
  picture: Signal<Picture | null>;
  playing: Signal<boolean>;
}

export interface Tab extends Pane {
  text: Signal<string>;
  dialect: Signal<Dialect>;
  parameters: Signal<string[]>;
  /** What runs or ran last; the text may have changed since. */
  asked: Signal<Question | null>;
  /** How the text came here, for the notice that nothing runs by itself. */
  origin: Signal<'reader' | 'link' | 'other site'>;
  /** The saved query that this text is of; the text may have changed since. */
  saved: Signal<SavedRef | null>;
  close(): void;
}

export const tabs = signal<Tab[]>([]);
export const activeId = signal(0);
export const history = signal<Past[]>([]);
export const persistent = signal(true);
/** Whether the saved tabs are read. */
export const loaded = signal(false);

export const active = computed(() => tabs.value.find((tab) => tab.id === activeId.value) ?? tabs.value[0] ?? null);

let store: Store | null = null;
let lastTab = 0;

export async function openTabs(): Promise<void> {
  let factory: IDBFactory | undefined;
  try {
    factory = window.indexedDB;
  } catch {
    factory = undefined;
  }
  store = await openStore(factory);
  persistent.value = store.persistent;
  const resumable = ranBeforeReload();
  try {
    for (const draft of await store.drafts()) {
      if (tabs.value.length >= DRAFTS_MAX) break;
      const tab = makeTab(draft.id, draft.text, draft.dialect === 'bullet' ? 'bullet' : 'native', draft.parameters.map(String), draft.answer);
      tab.view.value = { ...VIEW, form: draft.form ?? null, measure: draft.measure ?? null };
      tab.saved.value = readRef(draft.saved);
      if (typeof draft.answer === 'string') {
        tab.asked.value = questionOf(tab);
        post({ do: 'restore', result: tab.id, question: tab.asked.value, answer: draft.answer, resume: resumable.has(tab.id) });
        postView(tab);
      }
      tabs.value = [...tabs.value, tab];
    }
    history.value = await store.history();
  } catch {
    persistent.value = false;
  }
  loaded.value = true;
  effect(noteRunning);
  if (active.value !== null) activeId.value = active.value.id;
}

const RUNNING = 'swiftwater-running';

/**
 * The tabs whose queries ran in this very window before it was reloaded: they still run, for `linger_ms`, and are taken up. Another
 * window with the same drafts must not take them: a query has one reader.
 */
function ranBeforeReload(): Set<number> {
  const [navigation] = performance.getEntriesByType('navigation');
  if ((navigation as PerformanceNavigationTiming | undefined)?.type !== 'reload') return new Set();
  try {
    const ids: unknown = JSON.parse(sessionStorage.getItem(RUNNING) ?? '[]');
    return new Set(Array.isArray(ids) ? ids.filter((id) => typeof id === 'number') : []);
  } catch {
    return new Set();
  }
}

function noteRunning(): void {
  try {
    sessionStorage.setItem(RUNNING, JSON.stringify(tabs.value.filter(running).map((tab) => tab.id)));
  } catch {
    // Then a reload shows the saved answers only.
  }
}

/** What the reader looks at; nothing of a tab that is not on screen. */
function postView(tab: Tab): void {
  const visible = page.value === 'ask' && active.value === tab;
  post({ do: 'view', result: tab.id, view: { ...tab.view.value, visible } });
}

export function questionOf(tab: Tab): Question {
  const text = tab.text.value;
  const count = parameterCount(text);
  return {
    text,
    dialect: tab.dialect.value,
    parameters: Array.from({ length: count }, (_, i) => readParameter(tab.parameters.value[i] ?? '')),
  };
}

function makeTab(id: number, text: string, dialect: Dialect, parameters: string[], savedAnswer: string | null = null): Tab {
  lastTab = Math.max(lastTab, id);
  const tab: Tab = {
    id,
    text: signal(text),
    dialect: signal(dialect),
    parameters: signal(parameters),
    view: signal(VIEW),
    picture: signal<Picture | null>(null),
    asked: signal<Question | null>(null),
    origin: signal<'reader' | 'link' | 'other site'>('reader'),
    playing: signal(false),
    saved: signal<SavedRef | null>(null),
    close: () => {},
  };
  let saving: ReturnType<typeof setTimeout> | undefined;
  let answer = savedAnswer;
  let savedVersion = '';
  const save = () => {
    clearTimeout(saving);
    saving = setTimeout(() => {
      const { form, measure } = tab.view.value;
      store
        ?.saveDraft({ id, text: tab.text.value, dialect: tab.dialect.value, parameters: tab.parameters.value, form, measure, answer, saved: tab.saved.value })
        .catch(() => {
          persistent.value = false;
        });
    }, SAVE_MS);
  };
  const saveAnswer = async () => {
    const status = tab.picture.value?.status;
    if (status === undefined || status.last < 0 || status.endedReason === 'saved') return;
    const version = `${status.last}/${status.phase}/${tab.asked.value?.text}`;
    if (version === savedVersion) return;
    savedVersion = version;
    const parts = await request({ do: 'save', result: id, lengthMax: ANSWER_LENGTH_MAX });
    answer = parts === null ? null : parts.join('');
    save();
  };
  const timer = setInterval(saveAnswer, SAVE_ANSWER_MS);
  const ends = [
    paintWith(id, (picture) => {
      const before = tab.picture.value?.status.phase;
      tab.picture.value = picture;
      if (picture.status.phase !== before && (picture.status.phase === 'ended' || picture.status.phase === 'failed')) void saveAnswer();
    }),
    effect(() => postView(tab)),
    effect(() => {
      void [tab.text.value, tab.dialect.value, tab.parameters.value, tab.view.value.form, tab.view.value.measure, tab.saved.value];
      save();
    }),
  ];
  tab.close = () => {
    clearTimeout(saving);
    clearInterval(timer);
    for (const end of ends) end();
    post({ do: 'forget', result: id });
    void store?.deleteDraft(id).catch(() => {});
  };
  return tab;
}

/** Whether the text differs from the saved query that it is of. */
export const changedSince = ({ saved, text, dialect }: Tab): boolean => saved.value !== null && (saved.value.text !== text.value || saved.value.dialect !== dialect.value);

/** A new tab, or the open one with the same text; `unsaved`: but none of a saved query. It is shown, and does not run. */
export function openTab(given: string, dialect: Dialect = 'native', parameters: string[] = [], unsaved = false): Tab {
  const text = given.replace(/\r\n/g, '\n');
  const same = text === '' ? undefined : tabs.value.find((tab) => tab.text.value === text && tab.dialect.value === dialect && !(unsaved && tab.saved.value !== null));
  const empty = tabs.value.find((tab) => tab.text.value.trim() === '' && tab.asked.value === null);
  let tab = same ?? empty;
  if (tab === undefined) {
    if (tabs.value.length >= DRAFTS_MAX) closeTab(tabs.value[0] as Tab);
    // Ids are times: those of this visit and the saved ones differ, whichever comes first.
    tab = makeTab(Math.max(lastTab + 1, Date.now()), text, dialect, parameters);
    tabs.value = [...tabs.value, tab];
  } else {
    if (tab === empty) tab.saved.value = null;
    tab.text.value = text;
    tab.dialect.value = dialect;
    if (parameters.length > 0) tab.parameters.value = parameters;
  }
  tab.origin.value = 'reader';
  activeId.value = tab.id;
  return tab;
}

export function closeTab(tab: Tab): void {
  const index = tabs.value.indexOf(tab);
  tabs.value = tabs.value.filter((other) => other !== tab);
  if (activeId.value === tab.id) activeId.value = (tabs.value[index] ?? tabs.value[index - 1])?.id ?? 0;
  tab.close();
  if (tabs.value.length === 0) openTab('');
}

export function run(tab: Tab): void {
  const question = questionOf(tab);
  if (question.text.trim() === '') return;
  tab.origin.value = 'reader';
  tab.playing.value = false;
  tab.asked.value = question;
  tab.picture.value = null;
  tab.view.value = { ...tab.view.value, at: null, from: 0, columnFrom: 1, sort: null, find: '', hidden: [] };
  post({ do: 'ask', result: tab.id, question });
  postView(tab);
  const past = { text: question.text, dialect: question.dialect, parameters: tab.parameters.value, at: Date.now() };
  history.value = [past, ...history.value.filter((other) => other.text !== past.text)];
  store?.addHistory(past).catch(() => {
    persistent.value = false;
  });
}

export const running = (tab: Tab): boolean => {
  const phase = tab.picture.value?.status.phase;
  return tab.asked.value !== null && phase !== 'ended' && phase !== 'failed';
};

export function stop(tab: Tab): void {
  post({ do: 'stop', result: tab.id });
}

/** Freezes what is shown, or goes back to the newest. The results go on coming meanwhile. */
export function pause(tab: Pane): void {
  const picture = tab.picture.value;
  if (picture === null) return;
  tab.playing.value = false;
  tab.view.value = { ...tab.view.value, at: tab.view.value.at === null ? picture.status.last : null, from: 0 };
}

export function step(tab: Tab, to: number): void {
  const status = tab.picture.value?.status;
  if (status === undefined || status.last < 0) return;
  const at = Math.max(status.first, Math.min(to, status.last));
  tab.view.value = { ...tab.view.value, at };
}

/** A tab with a new picture without any change of the old one's position. */
export function look(tab: Pane, change: Partial<View>): void {
  tab.view.value = { ...tab.view.value, ...change };
}

export function chooseForm(tab: Tab, form: Form | null): void {
  look(tab, { form, measure: null, from: 0 });
}
