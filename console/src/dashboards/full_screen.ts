/** A full screen that stays on: the Fullscreen API, and a wake lock where the browser has one. Escape leaves it. */
import { useEffect, useState } from 'preact/hooks';
import { announce } from '../ui.tsx';

/** Keeps the screen on; the browser takes the lock away from a hidden page, so it is asked for again. */
function stayAwake(): () => void {
  let lock: WakeLockSentinel | null = null;
  let over = false;
  const ask = () => {
    if (over || document.hidden || !('wakeLock' in navigator)) return;
    navigator.wakeLock.request('screen').then(
      (got) => {
        lock = got;
        if (over) void got.release();
      },
      // Without a lock the screen may go dark, as on any page.
      () => {},
    );
  };
  document.addEventListener('visibilitychange', ask);
  ask();
  return () => {
    over = true;
    document.removeEventListener('visibilitychange', ask);
    void lock?.release().catch(() => {});
  };
}

/** True while `element` fills the screen, and the function that changes it. */
export function useFullScreen(element: HTMLElement | null): [boolean, () => void] {
  const [full, setFull] = useState(false);
  useEffect(() => {
    const changed = () => setFull(element !== null && document.fullscreenElement === element);
    document.addEventListener('fullscreenchange', changed);
    return () => document.removeEventListener('fullscreenchange', changed);
  }, [element]);
  useEffect(() => (full ? stayAwake() : undefined), [full]);
  const change = () => {
    if (full) void document.exitFullscreen().catch(() => {});
    else element?.requestFullscreen().then(() => announce('Full screen. Escape leaves it.'), () => announce('The browser refused the full screen.'));
  };
  return [full, change];
}
