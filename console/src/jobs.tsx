/** Jobs, alerts, sinks, joins and endpoints. */
import type { JSX } from 'preact';

export function Jobs(): JSX.Element {
  return (
    <main id="main" class="page jobs-page">
      <h1>Jobs &amp; alerts</h1>
    </main>
  );
}
