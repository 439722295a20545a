// Labels in the picture, said in HTML's terms: its circles are what the numbers stand on.
const receiver = document.querySelector("#network .receives").parentElement;
for (const how of ["up", "down"]) {
  receiver.classList.toggle("down", how === "down");
  const fill = (name) => getComputedStyle(receiver.querySelector(name)).fill;
  const style = `background:${fill("circle.node")};color:${fill("text")}`;
  document.querySelector("main").prepend(element("b", { style }, `receiver ${how}`));
}
place.nodes.get(3).dispatchEvent(new Event("click"));
openConsole(["cli"]);
document.querySelector("pre").textContent = "of a command";
